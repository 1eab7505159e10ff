"""The checked-in messages keep what their README promises."""

import re
from collections import Counter
from itertools import pairwise

import pytest
from spacy.lang.en import English
from spacy.tokens import DocBin

from spacy_attention.checkpoints import DEFAULT_CHECKPOINT, find_packaged
from spacy_attention.convert.run import convert_files

SPLITS = {"train": 700, "dev": 150, "test": 200}
RUN = 6  # words
# The tokenizer keeps "Nov." or "43Q..." whole, so that a few entities grow by what follows them.
TOKENIZER_JOINS = ("misaligned", "expanded")
# Runs that anyone writes: greetings and the like, lower-cased, without punctuation.
ALLOWED_RUNS = {
    "thank you for shopping with us",
    "would you be so kind as",
    "you be so kind as to",
    "thank you very much in advance",
    "thanks a lot for your help",
    "thank you in advance for your",
    "looking forward to hearing from you",
    "i look forward to hearing from",
    "look forward to hearing from you",
}


@pytest.fixture(scope="module")
def converted(root, tmp_path_factory):
    """Split -> what converting its file returned, and its documents."""
    folder, nlp, found = tmp_path_factory.mktemp("helpdesk"), English(), {}
    for split in SPLITS:
        output = folder / f"{split}.spacy"
        result = convert_files([root / "assets" / "helpdesk" / f"{split}.yml"], output, progress=False)
        found[split] = result, list(DocBin().from_disk(output).get_docs(nlp.vocab))
    return found


@pytest.fixture(scope="module")
def docs(converted):
    return {split: docs for split, (_, docs) in converted.items()}


def gold_class(doc):
    return max(doc.cats, key=doc.cats.get)


def words(doc):
    return re.findall(r"\w+", doc.text.lower())


def runs(doc):
    found = words(doc)
    return {" ".join(found[i : i + RUN]) for i in range(len(found) - RUN + 1)} - ALLOWED_RUNS


def test_every_message_parses(converted):
    for result, _ in converted.values():
        assert result.problems[TOKENIZER_JOINS] <= 0.01 * result.spans_in
        assert set(result.problems) <= {TOKENIZER_JOINS}


@pytest.mark.parametrize("split", SPLITS)
def test_counts(docs, split):
    assert len(docs[split]) >= SPLITS[split]


def test_every_split_has_all_labels(docs):
    classes = {split: {gold_class(doc) for doc in docs[split]} for split in SPLITS}
    labels = {split: {ent.label_ for doc in docs[split] for ent in doc.ents} for split in SPLITS}
    assert len(classes["train"]) >= 8
    assert len(labels["train"]) >= 9
    assert classes["train"] == classes["dev"] == classes["test"]
    assert labels["train"] == labels["dev"] == labels["test"]


def test_every_message_has_one_intent(docs):
    assert {sum(doc.cats.values()) for split in SPLITS for doc in docs[split]} == {1.0}


def test_there_are_messages_without_entities(docs):
    shares = {split: sum(not doc.ents for doc in docs[split]) / len(docs[split]) for split in SPLITS}
    assert min(shares.values()) > 0.1, shares


def test_there_are_adjacent_entities_and_several_of_one_label(docs):
    adjacent = [doc for doc in docs["train"] if any(a.end == b.start for a, b in pairwise(doc.ents))]
    several = [doc for doc in docs["train"] if len(doc.ents) > len({ent.label_ for ent in doc.ents})]
    assert len(adjacent) >= 10
    assert len(several) >= 10


def test_long_messages_go_beyond_512_word_pieces(docs):
    tokenizers = pytest.importorskip("tokenizers")
    folder = find_packaged(DEFAULT_CHECKPOINT)
    if folder is None:
        pytest.skip("the extra `minilm` is not installed")
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    texts = [doc.text for split in SPLITS for doc in docs[split]]
    lengths = [len(tokenizer.encode(text, add_special_tokens=False).ids) for text in texts]
    assert sum(length > 512 for length in lengths) >= 15


def test_no_message_occurs_twice(docs):
    counts = Counter(" ".join(words(doc)) for split in SPLITS for doc in docs[split])
    assert [text for text, count in counts.items() if count > 1] == []


@pytest.mark.parametrize("held_out", ["dev", "test"])
def test_no_held_out_message_shares_a_run_of_words_with_training(docs, held_out):
    train = set().union(*(runs(doc) for doc in docs["train"]))
    shared = {run: doc.text for doc in docs[held_out] for run in runs(doc) & train}
    assert shared == {}
