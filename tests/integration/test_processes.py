"""`nlp.pipe(n_process=2)`, in a process of its own that is stopped if it hangs."""

import json
import subprocess
import sys

import pytest

from ..helpers import BACKBONE, ENCODER, NER, TEXTCAT, build, initialize

SCRIPT = """
import json, sys
import spacy

nlp = spacy.load(sys.argv[1])
texts = ["Ann Lee wants her money back", "", "thanks", "My order 4711 never arrived"] * 20

def describe(doc):
    ents = [(ent.start, ent.end, ent.label_) for ent in doc.ents]
    numbers = [*doc.cats.values(), *(ent._.confidence for ent in doc.ents)]
    return [list(doc.cats), ents, doc._.backbone_report, numbers]

# Torch has started its threads before the fork.
one = [describe(doc) for doc in nlp.pipe(texts)]
two = [describe(doc) for doc in nlp.pipe(texts, n_process=2, batch_size=10)]
print(json.dumps([one, two]))
"""


@pytest.mark.parametrize("pipeline", [[BACKBONE, TEXTCAT, NER], [BACKBONE, ENCODER, TEXTCAT, NER]])
def test_two_processes_annotate_as_one_does(tiny_checkpoint, tmp_path, pipeline):
    nlp = build(tiny_checkpoint, pipeline)
    initialize(nlp)
    nlp.to_disk(tmp_path / "pipeline")
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "pipeline")]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=240)
    one, two = json.loads(done.stdout.splitlines()[-1])
    assert [doc[:3] for doc in one] == [doc[:3] for doc in two]
    for (*_, numbers), (*_, expected) in zip(two, one, strict=True):
        assert numbers == pytest.approx(expected, abs=1e-5)
    assert any(ents for _, ents, *_ in one)
