"""Class weights on real texts: a class at five percent."""

import csv

import pytest
import spacy
from spacy.training import Example
from thinc.api import fix_random_seed

from spacy_attention.training.optimizer import create_adamw

from .. import helpers
from ..helpers import TEXTCAT

# Two questions that are easily taken for each other.
USUAL, RARE = "card_arrival", "card_delivery_estimate"


def read_texts(path, n):
    with path.open(encoding="utf8", newline="") as file_:
        rows = [(row["text"], row["category"]) for row in csv.DictReader(file_)]
    return [row for label, k in n.items() for row in [row for row in rows if row[1] == label][:k]]


def recall_of_the_rare_class(train, test, *, class_weights, seed):
    nlp = spacy.blank("en")
    nlp.add_pipe("attention_backbone", config={"model": {"frozen_layers": 6, "cache": {"megabytes": 100, "folder": None}}})
    nlp.add_pipe(TEXTCAT, config={"class_weights": class_weights})

    def as_examples(rows):
        return [
            Example.from_dict(nlp.make_doc(x), {"cats": {label: float(label == y) for label in (USUAL, RARE)}}) for x, y in rows
        ]

    examples = as_examples(train)
    fix_random_seed(seed)
    nlp.initialize(lambda: examples)
    optimizer = create_adamw(learn_rate=1e-3, head_rate=2e-3)
    for _ in range(12):
        for start in range(3):
            helpers.accumulate(nlp, examples[start::3])
            nlp.get_pipe(TEXTCAT).finish_update(optimizer)
            optimizer.step_schedules()
    return nlp.evaluate(as_examples(test))["cats_f_per_type"][RARE]["r"]


@pytest.mark.corpora
def test_balanced_weights_raise_the_recall_of_a_class_at_five_percent(data_folder):
    train = read_texts(data_folder / "banking77" / "train.csv", {USUAL: 114, RARE: 6})
    test = read_texts(data_folder / "banking77" / "test.csv", {USUAL: 40, RARE: 40})
    for seed in (0, 1):
        plain = recall_of_the_rare_class(train, test, class_weights=None, seed=seed)
        balanced = recall_of_the_rare_class(train, test, class_weights="balanced", seed=seed)
        assert balanced > plain
