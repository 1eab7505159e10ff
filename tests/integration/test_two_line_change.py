"""spaCy's own GPU config becomes one of ours by two lines, and then trains, saves and loads."""

import difflib

import numpy
import pytest
import spacy
from spacy.cli.init_config import fill_config, init_config
from spacy.cli.train import train
from spacy.tokens import DocBin
from thinc.api import Config

from .. import helpers
from .test_set_ups import TEXTS, stock_examples, stock_outputs

LINES = {
    'factory = "transformer"': 'factory = "attention_backbone"',
    '@architectures = "spacy-transformers.TransformerModel.v3"': '@architectures = "spacy-attention.TransformerBackbone.v1"',
}
PIPELINES = [
    (["ner", "textcat"], "efficiency"),
    (["ner", "textcat"], "accuracy"),
    (["tagger"], "efficiency"),
    (["spancat"], "efficiency"),
    (["textcat_multilabel"], "accuracy"),
]


def two_lines(stock):
    """stock (str): a config. RETURNS (str): with the two lines changed."""
    for old, new in LINES.items():
        assert stock.count(old) == 1
        stock = stock.replace(old, new)
    return stock


def write_config(path, checkpoint, components, optimize="efficiency", change=lambda text: text):
    """The changed config in a file, with the checkpoint of the tests."""
    stock = init_config(lang="en", pipeline=components, optimize=optimize, gpu=True).to_str()
    ours = two_lines(stock)
    changed = [line for line in difflib.ndiff(stock.splitlines(), ours.splitlines()) if line[0] in "+-"]
    assert len(changed) == 4, "two lines out, two lines in"
    assert stock.count('name = "roberta-base"') == 1
    path.write_text(change(ours.replace('name = "roberta-base"', f'name = "{checkpoint}"')))
    return path


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "data.spacy"
    DocBin(docs=[eg.reference for eg in stock_examples(spacy.blank("en"))], store_user_data=True).to_disk(path)
    return path


def spacy_train(config, corpus, output):
    """Three steps at a rate that shows."""
    overrides = {
        "paths.train": str(corpus),
        "paths.dev": str(corpus),
        "training.max_steps": 3,
        "training.eval_frequency": 3,
        "training.optimizer.learn_rate.warmup_steps": 1,
        "training.optimizer.learn_rate.initial_rate": 1e-3,
    }
    train(config, output, overrides=overrides)
    return spacy.load(output / "model-last")


@pytest.mark.parametrize(("components", "optimize"), PIPELINES)
def test_two_lines_are_enough(tiny_checkpoint, corpus, tmp_path, components, optimize):
    config = write_config(tmp_path / "config.cfg", tiny_checkpoint, components, optimize)
    nlp = spacy_train(config, corpus, tmp_path / "out")
    assert nlp.pipe_names == ["transformer", *components]
    assert type(nlp.get_pipe("transformer")).__name__ == "AttentionBackbone"
    assert nlp.get_pipe("transformer").listening_components == components

    start = spacy.blank("en")
    helpers.add_backbone(start, tiny_checkpoint, name="transformer")
    start.initialize()
    before, after = helpers.weights_of(start), helpers.weights_of(nlp)
    assert all("pooler" in key for key in before if numpy.array_equal(before[key], after[key]))

    said = stock_outputs(nlp)
    assert len(said) == len(TEXTS) + 2
    if "textcat" in components or "textcat_multilabel" in components:
        assert set(nlp(TEXTS[0]).cats) == set(helpers.LABELS)
    nlp.to_disk(tmp_path / "again")
    assert stock_outputs(spacy.load(tmp_path / "again")) == said


def test_filled_config_keeps_what_was_written(tiny_checkpoint, tmp_path):
    """`init fill-config` adds our own settings to the changed block and changes none of it."""
    path = write_config(tmp_path / "config.cfg", tiny_checkpoint, ["ner"])
    _, filled = fill_config(tmp_path / "filled.cfg", path, silent=True)
    written = Config().from_disk(path, interpolate=False)["components"]["transformer"]["model"]
    model = filled["components"]["transformer"]["model"]
    assert {key: model[key] for key in written} == written
    added = {key: model[key] for key in model.keys() - written.keys()}
    ours = spacy.blank("en").get_factory_meta("attention_backbone").default_config["model"]
    assert added == {key: value for key, value in ours.items() if key not in written and key != "@architectures"}
    assert added.keys() >= {"precision", "window", "stride", "budget"}


def test_mixed_precision_is_bfloat16(tiny_checkpoint, corpus, tmp_path):
    def change(text):
        return text.replace("mixed_precision = false", "mixed_precision = true")

    config = write_config(tmp_path / "config.cfg", tiny_checkpoint, ["textcat"], change=change)
    nlp = spacy_train(config, corpus, tmp_path / "out")
    assert nlp.get_pipe("transformer").model.shims[0].precision == "bfloat16"
    states = nlp(TEXTS[0])._.trf_data.model_output.last_hidden_state
    assert states.dtype == numpy.float32


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('strided_spans.v1"\nwindow = 128\nstride = 96', 'sent_spans.v1"', "E112.*get_sent_spans"),
        ("grad_scaler_config]", "grad_scaler_config]\ninit_scale = 32", r"E113.*\{'init_scale': 32\}"),
        ("use_fast = true", "use_fast = false", "E106.*tokenizer_config"),
        (*[*LINES.items()][1][::-1], "E107"),
    ],
)
def test_what_cannot_be_followed_is_refused_by_name(tiny_checkpoint, tmp_path, old, new, message):
    def change(text):
        assert text.count(old) == 1
        return text.replace(old, new)

    config = write_config(tmp_path / "config.cfg", tiny_checkpoint, ["ner"], change=change)
    with pytest.raises(ValueError, match=message):
        spacy.util.load_model_from_config(Config().from_disk(config), auto_fill=True)
