"""`nlp.pipe(n_process=2)`, in a process of its own that is stopped if it hangs."""

import json
import subprocess
import sys

import pytest

from ..helpers import BACKBONE, ENCODER, NER, TEXTCAT, build, initialize

SCRIPT = """
import json, sys
import spacy

texts = ["Ann Lee wants her money back", "", "thanks", "My order 4711 never arrived"] * 20

def describe(doc):
    ents = [(ent.start, ent.end, ent.label_) for ent in doc.ents]
    numbers = [*doc.cats.values(), *(ent._.confidence for ent in doc.ents)]
    return [list(doc.cats), ents, doc._.backbone_report, numbers]

results = []
for path in sys.argv[1:]:
    nlp = spacy.load(path)
    # Torch has started its threads before the fork.
    one = [describe(doc) for doc in nlp.pipe(texts)]
    two = [describe(doc) for doc in nlp.pipe(texts, n_process=2, batch_size=10)]
    results.append([one, two])
print(json.dumps(results))
"""
PIPELINES = {"heads": [BACKBONE, TEXTCAT, NER], "encoder": [BACKBONE, ENCODER, TEXTCAT, NER]}


@pytest.fixture(scope="module")
def annotated(tiny_checkpoint, tmp_path_factory):
    """Name of the pipeline -> what one process and what two wrote; all from one start of Python, which takes longest."""
    folder = tmp_path_factory.mktemp("processes")
    for name, pipeline in PIPELINES.items():
        nlp = build(tiny_checkpoint, pipeline)
        initialize(nlp)
        nlp.to_disk(folder / name)
    command = [sys.executable, "-c", SCRIPT, *(str(folder / name) for name in PIPELINES)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=240)
    return dict(zip(PIPELINES, json.loads(done.stdout.splitlines()[-1]), strict=True))


@pytest.mark.parametrize("name", PIPELINES)
def test_two_processes_annotate_as_one_does(annotated, name):
    one, two = annotated[name]
    assert [doc[:3] for doc in one] == [doc[:3] for doc in two]
    for (*_, numbers), (*_, expected) in zip(two, one, strict=True):
        assert numbers == pytest.approx(expected, abs=1e-5)
    assert any(ents for _, ents, *_ in one)
