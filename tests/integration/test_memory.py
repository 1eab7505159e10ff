"""Peak memory in processes of their own, with the real checkpoint."""

import json
import subprocess
import sys

import pytest

SETUP = """
import json, resource, sys
import spacy

def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize() / 2**20

nlp = spacy.blank("en")
for name in ("attention_backbone", "attention_textcat", "attention_ner"):
    nlp.add_pipe(name)
for label in ("a", "b"):
    nlp.get_pipe("attention_textcat").add_label(label)
for label in ("PERSON", "ORDER", "DATE"):
    nlp.get_pipe("attention_ner").add_label(label)
nlp.initialize()
SENTENCE = "Ann Lee wants order 4711 back , and Bob Stone paid twice for it on Monday . "
"""
ONE_DOCUMENT = """
doc = nlp(SENTENCE * (int(sys.argv[1]) // 16))
print(json.dumps([len(doc), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""
STREAM = """
seen = []
for i, doc in enumerate(nlp.pipe((SENTENCE * 4 for _ in range(5000)), batch_size=64)):
    if i % 500 == 499:
        seen.append(resident())
print(json.dumps(seen))
"""


def run(script: str, *args: str) -> list[float]:
    done = subprocess.run([sys.executable, "-c", SETUP + script, *args], check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_memory_depends_on_the_budget_and_not_on_the_document():
    tokens, short = run(ONE_DOCUMENT, "1000")
    assert tokens >= 900
    tokens, long = run(ONE_DOCUMENT, "70400")
    assert tokens >= 70_000
    assert long - short <= 400, (short, long)


@pytest.mark.slow
def test_a_stream_of_documents_does_not_pile_up():
    seen = run(STREAM)
    assert len(seen) == 10
    # The first thousand documents fill caches.
    assert max(seen[2:]) - min(seen[2:]) <= 30, seen
