"""Pipelines without any torch weight learn with our optimizer as with the one that they were made for. Takes minutes."""

import statistics

import pytest
import spacy
from spacy.cli.init_config import init_config
from spacy.tokens import DocBin

from spacy_attention.cli.convert import convert
from spacy_attention.cli.train import train

from ..project.conftest import ROOT

SEEDS = (0, 1, 2)
OPTIMIZERS = {
    "Adam.v1": {"@optimizers": "Adam.v1", "L2": 0.01, "grad_clip": 1.0, "learn_rate": 0.001},
    "spacy-attention.AdamW.v1": {"@optimizers": "spacy-attention.AdamW.v1", "learn_rate": 0.001},
}


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """The helpdesk messages, 2,000 to learn from."""
    folder = tmp_path_factory.mktemp("corpora")
    for part in ("train", "dev"):
        convert([ROOT / "assets" / "helpdesk" / f"{part}.yml"], folder / f"{part}.spacy", silent=True)
    docs = list(DocBin().from_disk(folder / "train.spacy").get_docs(spacy.blank("en").vocab))
    DocBin(docs=docs[:: len(docs) // 2000]).to_disk(folder / "train.spacy")
    return folder


def dev_scores(optimizer, corpora, folder):
    """RETURNS: of the best model of each seed the score that chooses it."""
    config = init_config(lang="en", pipeline=["ner", "textcat"], optimize="efficiency", gpu=False)
    config["training"]["optimizer"] = OPTIMIZERS[optimizer]
    config["training"]["logger"] = {"@loggers": "spacy.ConsoleLogger.v3"}
    config["training"]["batcher"] = {"@batchers": "spacy.batch_by_sequence.v1", "size": 32, "get_length": None}
    config.to_disk(folder / "config.cfg")
    overrides = {"paths.train": str(corpora / "train.spacy"), "paths.dev": str(corpora / "dev.spacy"), "training.max_steps": 600}
    scores = []
    for seed in SEEDS:
        output = folder / str(seed)
        train(folder / "config.cfg", output, overrides={**overrides, "system.seed": seed}, silent=True)
        performance = spacy.load(output / "model-best").meta["performance"]
        scores.append((performance["ents_f"] + performance["cats_score"]) / 2)
    return scores


@pytest.mark.slow
def test_dev_scores_are_no_lower_than_noise_explains(corpora, tmp_path):
    found = {}
    for optimizer in OPTIMIZERS:
        folder = tmp_path / optimizer
        folder.mkdir()
        found[optimizer] = dev_scores(optimizer, corpora, folder)
    thincs, ours = found.values()
    assert min(thincs) > 0.4
    assert statistics.mean(ours) > statistics.mean(thincs) - 2 * statistics.stdev(thincs), found
