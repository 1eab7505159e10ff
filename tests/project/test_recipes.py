"""Every recipe trains, and the script that compares them."""

import json
import shutil
import sys
from types import SimpleNamespace

import pytest
import spacy
from spacy.tokens import DocBin
from thinc.api import Config

from spacy_attention.cli.train import train

from .. import helpers
from ..helpers import BACKBONE, ENCODER

RECIPES = ("default", "frozen", "lora", "scratch")


@pytest.fixture(scope="module")
def script(root, load_script):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(root / "scripts"))
        yield load_script("recipes")
        sys.modules.pop("results", None)


@pytest.fixture
def corpus(tmp_path):
    """The data of both sets, as the project's commands leave it."""
    docs = [eg.reference for eg in helpers.make_examples(spacy.blank("en"))]
    folder = tmp_path / "corpus" / "snips"
    folder.mkdir(parents=True)
    for part in ("train", "dev"):
        DocBin(docs=docs).to_disk(folder / f"{part}.spacy")
    return folder


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_trains(root, name, corpus, tiny_checkpoint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = root / "configs" / f"{name}.cfg"
    overrides = {"paths.train": str(corpus / "train.spacy"), "paths.dev": str(corpus / "dev.spacy")}
    overrides |= {"training.max_steps": 2, "training.eval_frequency": 1}
    components = Config().from_disk(config, interpolate=False)["components"]
    if BACKBONE in components:
        overrides[f"components.{BACKBONE}.model.name"] = str(tiny_checkpoint)
        overrides[f"components.{BACKBONE}.model.frozen_layers"] = 2 if name == "frozen" else 0
    if name == "frozen":
        overrides[f"components.{ENCODER}.model.heads"] = 4
    train(config, tmp_path / "out", overrides=overrides, silent=True)
    nlp = spacy.load(tmp_path / "out" / "model-last")
    assert set(nlp("Ann wants her money back").cats) == set(helpers.LABELS)
    assert (tmp_path / "training" / "adapter" / "base.json").exists() == (name == "lora")


def test_recipes_differ_from_the_default_only_where_they_must(root):
    """What decides a comparison is the same in all: data, batches, scores, heads, dropout. Rates are each recipe's own."""
    default, *others = (Config().from_disk(root / "configs" / f"{name}.cfg", interpolate=False) for name in RECIPES)
    for other in others:
        for block in ("corpora", "initialize"):
            assert other[block] == default[block]
        for block in ("batcher", "score_weights", "logger"):
            assert other["training"][block] == default["training"][block]
        own = ("before_to_disk", "optimizer")
        settings = {name: value for name, value in default["training"].items() if name not in own}
        assert {name: value for name, value in other["training"].items() if name not in own} == settings
        for head in ("attention_textcat", "attention_ner"):
            assert other["components"][head] == default["components"][head]


def test_the_table(root, script, run_here, corpus, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(script.trainings, "subprocess", SimpleNamespace(run=run_here))
    monkeypatch.setattr(script, "TARGET", tmp_path)
    monkeypatch.setitem(script.DATA, "snips", script.Data("SNIPS", 2, 2, {}))
    recipe = script.RECIPES["scratch"]
    monkeypatch.setitem(script.RECIPES, "scratch", recipe._replace(config=str(root / recipe.config)))
    monkeypatch.setattr("sys.argv", ["recipes.py", "--data", "snips", "--recipe", "scratch", "--seed", "0", "1"])
    script.main()
    result = json.loads((tmp_path / "recipes-snips.json").read_text())
    (row,) = result["rows"]
    assert row[0].endswith("2 of 3 seeds")
    runs = [json.loads((tmp_path / f"training/recipes/snips-scratch-{seed}/metrics.json").read_text()) for seed in (0, 1)]
    expected = sum(run["scores"]["ents_f"] for run in runs) / 2
    assert row[2].startswith(f"{100 * expected:.2f} ± ")
    assert {run["step"] for run in runs} <= {0, 2, 4}
    assert not (tmp_path / "recipes-helpdesk.json").exists()
    # All is there: nothing is trained again, unless it would not be the same.
    record = tmp_path / "training/recipes/snips-scratch-0/record.jsonl"
    before = record.stat().st_mtime_ns
    script.main()
    assert record.stat().st_mtime_ns == before
    monkeypatch.setitem(script.DATA, "snips", script.Data("SNIPS", 4, 2, {}))
    with pytest.raises(AssertionError, match="E622"):
        script.main()
    # What the table has needs no folder, unless it would not be the same.
    monkeypatch.setitem(script.DATA, "snips", script.Data("SNIPS", 2, 2, {}))
    shutil.rmtree(tmp_path / "training/recipes")
    script.main()
    assert json.loads((tmp_path / "recipes-snips.json").read_text())["rows"] == [row]
    assert not record.exists()
    monkeypatch.setattr("sys.argv", [*sys.argv[:-2], "0"])
    monkeypatch.setitem(script.DATA, "snips", script.Data("SNIPS", 4, 2, {}))
    script.main()
    assert record.exists()
