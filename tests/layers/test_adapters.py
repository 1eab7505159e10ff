"""`lora`: adapters learn, everything else stays, and what is saved needs no peft."""

import json
import sys
from hashlib import sha256

import numpy
import pytest
import spacy
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModel

from spacy_attention.layers.adapters import has_adapters, is_adapter
from spacy_attention.models.backbone import build_transformer_backbone
from spacy_attention.nn.transformer import can_pack
from spacy_attention.training.adapter import create_save_adapter, save_adapter
from spacy_attention.training.optimizer import create_adamw

from ..helpers import (
    BACKBONE,
    NER,
    SENTENCES,
    TEXTCAT,
    add_backbone,
    add_head,
    assert_same_outputs,
    initialize,
    make_examples,
    torch_shims,
    train,
    weights_of,
)
from .test_backbone import make_docs

LORA = {"rank": 4, "alpha": 8}
TEXT = SENTENCES[0][0]


def make_model(checkpoint, *, lora=LORA, precision="float32", **kwargs):
    model = build_transformer_backbone(str(checkpoint), precision=precision, lora=lora, **kwargs)
    model.initialize()
    return model


def make_pipeline(checkpoint, **model):
    nlp = spacy.blank("en")
    add_backbone(nlp, checkpoint, **{"lora": LORA, **model})
    add_head(nlp, TEXTCAT)
    add_head(nlp, NER)
    return nlp


def shake_adapters(model) -> None:
    """So that they change something: one of the two matrices starts as zero."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.shims[0].module.named_parameters():
            if is_adapter(name):
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)


def gradients(model) -> dict[str, torch.Tensor]:
    batch, backprop = model.begin_update(make_docs())
    backprop(numpy.random.default_rng(0).normal(size=batch.rows.shape).astype("float32"))
    named = list(model.shims[0].parameters())
    found = {key.name: p.grad.to_dense().clone() for key, p in named if p.grad is not None}
    for _, p in named:
        p.grad = None
    return found


@pytest.fixture
def learned(tiny_checkpoint):
    """A pipeline after a few steps."""
    nlp = make_pipeline(tiny_checkpoint)
    examples = make_examples(nlp)
    initialize(nlp, examples)
    train(nlp, examples, create_adamw(0.02), 3)
    return nlp


def test_adapters_change_nothing_at_the_start(tiny_checkpoint):
    docs = make_docs()
    expected = make_model(tiny_checkpoint, lora=None).predict(docs).rows
    numpy.testing.assert_array_equal(make_model(tiny_checkpoint).predict(docs).rows, expected)


def test_only_adapters_and_what_stands_above_learn(tiny_checkpoint):
    nlp = make_pipeline(tiny_checkpoint, layer="mix")
    examples = make_examples(nlp)
    initialize(nlp, examples)
    before = weights_of(nlp)
    train(nlp, examples, create_adamw(0.02, weight_decay=0.5), 3)
    moved = {name for name, weight in weights_of(nlp).items() if (weight != before[name]).any()}
    of_backbone = {name for name in moved if name.startswith(BACKBONE)}
    expected = {name for name in before if name.startswith(BACKBONE) and (is_adapter(name) or "states." in name)}
    assert of_backbone == expected
    assert any("states." in name for name in expected)
    assert sum(map(is_adapter, of_backbone)) == 2 * 2 * 2  # layers, query and value, two matrices
    assert {TEXTCAT, NER} <= {name.split("/")[0] for name in moved}
    depths = {key.below_top for key, _ in nlp.get_pipe(BACKBONE).model.shims[0].parameters() if is_adapter(key.name)}
    assert depths == {0, 1}


def test_a_saved_pipeline_is_merged_and_loads_without_peft(learned, tiny_checkpoint, tmp_path, monkeypatch):
    shim = learned.get_pipe(BACKBONE).model.shims[0]
    before = weights_of(learned)
    learned.to_disk(tmp_path)
    assert b"lora_" not in (tmp_path / BACKBONE / "model").read_bytes()
    after = weights_of(learned)
    assert before.keys() == after.keys()
    assert all((after[name] == before[name]).all() for name in before)
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "peft", None)
        loaded = spacy.load(tmp_path)
        for text, _, _ in SENTENCES:
            assert_same_outputs(loaded(text), learned(text), atol=1e-5)
        with pytest.raises(ImportError, match=r"E120\].*spacy-attention\[lora\]"):
            loaded.update(make_examples(loaded), sgd=False)
    plain = AutoModel.from_pretrained(tiny_checkpoint)
    merged = loaded.get_pipe(BACKBONE).model.shims[0].transformer.state_dict()
    changed = {name for name, weight in plain.state_dict().items() if not torch.equal(weight, merged[name])}
    assert merged.keys() == plain.state_dict().keys()
    assert changed == {f"encoder.layer.{i}.attention.self.{part}.weight" for i in (0, 1) for part in ("query", "value")}
    assert has_adapters(shim.module)


def test_a_loaded_pipeline_trains_new_adapters(learned, tmp_path):
    learned.to_disk(tmp_path / "pipeline")
    loaded = spacy.load(tmp_path / "pipeline")
    model = loaded.get_pipe(BACKBONE).model
    with pytest.raises(ValueError, match="E121"):
        save_adapter(loaded, tmp_path / "adapter")
    start, saved = weights_of(loaded), model.shims[0].to_bytes()
    examples = make_examples(loaded)
    train(loaded, examples, create_adamw(0.02), 2)
    now = weights_of(loaded)
    assert sum(map(is_adapter, now)) == 8
    for name in start:
        if name.startswith(BACKBONE):
            (there,) = [now[other] for other in now if other.replace(".base_layer", "") == name]
            assert (there == start[name]).all()
    assert model.shims[0].to_bytes() != saved
    save_adapter(loaded, tmp_path / "adapter")
    base = json.loads((tmp_path / "adapter" / "base.json").read_text(encoding="utf8"))
    assert base["name"] is None
    assert len(base["sha256"]) == 64


def test_frozen_layers_have_no_learning_adapters(tiny_checkpoint):
    found = gradients(make_model(tiny_checkpoint, frozen_layers=1))
    assert found
    assert all(".layer.1." in name and is_adapter(name) for name in found)
    assert gradients(make_model(tiny_checkpoint, frozen_layers=2)) == {}
    loaded = build_transformer_backbone("nowhere", precision="float32", lora=LORA)
    loaded.from_bytes(make_model(tiny_checkpoint).to_bytes())
    loaded.shims[0].freeze(1)  # as a thawing schedule does, before the adapters are there
    assert gradients(loaded).keys() == found.keys()


def test_low_precision_uses_merged_weights(tiny_checkpoint):
    model, docs = make_model(tiny_checkpoint, precision="bfloat16"), make_docs()
    plain = model.predict(docs).rows
    shake_adapters(model)
    found = model.predict(docs).rows
    assert abs(found - plain).max() > 0.1
    _, lower = model.shims[0]._low_precision
    assert not has_adapters(lower)
    other = make_model(tiny_checkpoint, lora=None, precision="bfloat16")
    other.from_bytes(model.to_bytes())
    other.predict(docs)
    _, expected = other.shims[0]._low_precision
    assert [type(part) for part in lower.modules()] == [type(part) for part in expected.modules()]
    numpy.testing.assert_array_equal(found, other.predict(docs).rows)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_gradient_checkpointing_gives_the_same_gradients(tiny_checkpoint, precision):
    results = []
    for checkpointing in (False, True):
        model = make_model(tiny_checkpoint, precision=precision, gradient_checkpointing=checkpointing)
        shake_adapters(model)
        results.append(gradients(model))
    assert results[0].keys() == results[1].keys()
    assert results[0]
    assert all(map(is_adapter, results[0]))
    for name, gradient in results[0].items():
        # Windows of several lengths do not share a pass here, so bfloat16 rounds elsewhere.
        error = (0.02 if precision == "bfloat16" else 1e-5) * gradient.abs().max().item()
        torch.testing.assert_close(results[1][name], gradient, atol=error, rtol=0)


def test_windows_of_several_lengths_share_a_pass(tiny_checkpoint):
    model = make_model(tiny_checkpoint)
    shake_adapters(model)
    assert can_pack(model.shims[0].transformer)
    docs = make_docs()
    together = model.predict(docs).rows
    alone = numpy.concatenate([model.predict([doc]).rows for doc in docs])
    numpy.testing.assert_allclose(together, alone, atol=1e-5)


def test_an_adapter_of_the_embeddings(tiny_checkpoint):
    model, docs = make_model(tiny_checkpoint, lora={**LORA, "targets": ["word_embeddings", "value"]}), make_docs()
    optimizer = create_adamw(0.05)
    for _ in range(2):
        batch, backprop = model.begin_update(docs)
        backprop(numpy.random.default_rng(0).normal(size=batch.rows.shape).astype("float32"))
        model.finish_update(optimizer)
        optimizer.step_schedules()
    merged = build_transformer_backbone("nowhere", precision="float32").from_bytes(model.to_bytes())
    table = "embeddings.word_embeddings.weight"
    before = AutoModel.from_pretrained(tiny_checkpoint).state_dict()[table]
    assert not torch.equal(merged.shims[0].transformer.state_dict()[table], before)
    numpy.testing.assert_allclose(merged.predict(docs).rows, model.predict(docs).rows, atol=1e-5)


@pytest.mark.parametrize(
    ("family", "adapted"),
    [
        ("albert", 4),  # one layer, used twice: query, key, value, dense
        ("modernbert", 4),
        ("gpt2", 2),  # what peft chooses
        ("t5", 4),
    ],
)
def test_families(family_folder, family, adapted):
    model, docs = make_model(family_folder(family), window=48, stride=32), make_docs()
    shim = model.shims[0]
    assert sum(is_adapter(key.name) for key, _ in shim.parameters()) == 2 * adapted
    shake_adapters(model)
    assert all(map(is_adapter, gradients(model)))
    merged = build_transformer_backbone("nowhere", precision="float32", window=48, stride=32).from_bytes(model.to_bytes())
    numpy.testing.assert_allclose(merged.predict(docs).rows, model.predict(docs).rows, atol=1e-4)


def test_the_adapter_is_saved_as_peft_does(tiny_checkpoint, tmp_path):
    nlp = make_pipeline(tiny_checkpoint)
    initialize(nlp)
    (shim,) = torch_shims(nlp.get_pipe(BACKBONE).model)
    shake_adapters(nlp.get_pipe(BACKBONE).model)
    folder = tmp_path / "training" / "adapter"
    assert create_save_adapter(str(folder))(nlp) is nlp
    assert {path.name for path in folder.iterdir()} == {"adapter_config.json", "adapter_model.safetensors", "base.json"}
    weights = load_file(folder / "adapter_model.safetensors")
    assert len(weights) == 8
    theirs = PeftModel.from_pretrained(AutoModel.from_pretrained(tiny_checkpoint), str(folder)).eval()
    ids = torch.tensor([[2, 9, 8, 3]])
    with torch.no_grad():
        torch.testing.assert_close(theirs(ids).last_hidden_state, shim.transformer(ids).last_hidden_state, atol=1e-5, rtol=0)
    checksum = sha256((tiny_checkpoint / "model.safetensors").read_bytes()).hexdigest()
    base = json.loads((folder / "base.json").read_text(encoding="utf8"))
    assert base == {"name": str(tiny_checkpoint), "sha256": checksum}
    assert json.loads((folder / "adapter_config.json").read_text(encoding="utf8"))["base_model_name_or_path"] == str(
        tiny_checkpoint
    )


def test_checkpoint_in_another_format_has_no_checksum(tiny_checkpoint, tmp_path):
    for path in tiny_checkpoint.iterdir():
        if path.suffix == ".json":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    torch.save(load_file(tiny_checkpoint / "model.safetensors"), tmp_path / "pytorch_model.bin")
    model = make_model(tmp_path)
    model.shims[0].save_adapter(tmp_path / "adapter")
    assert json.loads((tmp_path / "adapter" / "base.json").read_text(encoding="utf8"))["sha256"] is None


def test_one_folder_holds_the_adapters_of_one_backbone(tiny_checkpoint, tmp_path):
    nlp = make_pipeline(tiny_checkpoint)
    initialize(nlp)
    nlp.replace_listeners(BACKBONE, TEXTCAT, ["model.tok2vec"])
    with pytest.raises(ValueError, match=r"E602\].* 2 backbones"):
        save_adapter(nlp, tmp_path)


def test_without_peft_nothing_is_initialized(tiny_checkpoint, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ImportError, match=r"E120\].*spacy-attention\[lora\]"):
        make_model(tiny_checkpoint)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rank": 0}, r"'lora.rank'.*at least 1.*found 0"),
        ({"rank": 2.5}, r"'lora.rank'.*found 2.5"),
        ({"alpha": 0}, r"'lora.alpha'.*at least 1.*found 0"),
        ({"dropout": 1.0}, r"'lora.dropout'.*below 1"),
        ({"targets": 3}, r"'lora.targets'.*found 3"),
        ({"targets": ["nothing"]}, r"'lora.targets'.*nothing"),
        ({"r": 4}, r"'lora'.*rank.*found \['r'\]"),
    ],
)
def test_settings_that_cannot_be(tiny_checkpoint, settings, message):
    with pytest.raises(ValueError, match=r"E106\].*" + message):
        make_model(tiny_checkpoint, lora=settings)
