"""`layer`, `frozen_layers`, `gradient_checkpointing`, and a device without memory."""

import numpy
import pytest
import torch
from thinc.api import Adam
from transformers import AutoModel

from spacy_attention.layers import backbone
from spacy_attention.models.backbone import build_transformer_backbone
from spacy_attention.nn import transformer
from spacy_attention.training.optimizer import create_adamw

from .test_backbone import HuggingFace, make_docs, make_model

DOCS = ["Ann Lee wants her money back", "", "thanks a lot"]


def gradients(model) -> dict[str, torch.Tensor]:
    docs = make_docs(DOCS)
    batch, backprop = model.begin_update(docs)
    backprop(numpy.random.default_rng(0).normal(size=batch.rows.shape).astype("float32"))
    return {
        key.name: parameter.grad.to_dense().clone()
        for key, parameter in model.shims[0].parameters()
        if parameter.grad is not None
    }


@pytest.mark.parametrize("layer", [0, 1, -2])
def test_layer_is_that_of_hugging_face(tiny_checkpoint, layer):
    model = make_model(tiny_checkpoint, layer=layer)
    (doc,) = make_docs(DOCS[:1])
    theirs, reference = AutoModel.from_pretrained(tiny_checkpoint).eval(), HuggingFace(tiny_checkpoint)
    ids = [reference.tokenizer.cls_token_id, *reference.pieces(doc.text), reference.tokenizer.sep_token_id]
    with torch.no_grad():
        states = theirs(torch.tensor([ids]), output_hidden_states=True).hidden_states
    numpy.testing.assert_allclose(model.predict([doc]).rows, states[layer][0, :-1].numpy(), atol=1e-5)


def test_mix_learns_and_is_saved(tiny_checkpoint):
    model = make_model(tiny_checkpoint, layer="mix")
    found = gradients(model)
    assert found["states.weights"].abs().sum() > 0
    model.finish_update(Adam(0.1))
    again = build_transformer_backbone("nowhere", precision="float32", layer="mix").from_bytes(model.to_bytes())
    docs = make_docs(DOCS)
    numpy.testing.assert_array_equal(again.predict(docs).rows, model.predict(docs).rows)


def test_frozen_layers_do_not_learn(tiny_checkpoint):
    everything = gradients(make_model(tiny_checkpoint))
    model = make_model(tiny_checkpoint, frozen_layers=1)
    found = gradients(model)
    assert found
    assert not [name for name in found if "embeddings" in name or "layer.0." in name]
    assert [name for name in found if "layer.1." in name]
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, everything[name])
    again = build_transformer_backbone("nowhere", precision="float32", frozen_layers=1).from_bytes(model.to_bytes())
    assert gradients(again).keys() == found.keys()


def test_frozen_embeddings_leave_all_layers_to_learn(tiny_checkpoint):
    everything = gradients(make_model(tiny_checkpoint))
    found = gradients(make_model(tiny_checkpoint, frozen_layers="embeddings"))
    assert found.keys() == {name for name in everything if ".embeddings." not in name}
    assert any(".layer.0." in name for name in found)
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, everything[name])


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("gradient_checkpointing", [False, True])
def test_a_checkpoint_frozen_as_a_whole_keeps_no_activations(tiny_checkpoint, monkeypatch, precision, gradient_checkpointing):
    def make(frozen_layers):
        settings = dict(precision=precision, gradient_checkpointing=gradient_checkpointing, frozen_layers=frozen_layers)
        model = build_transformer_backbone(str(tiny_checkpoint), **settings)
        model.initialize()
        return model

    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        monkeypatch.setattr(torch.autograd, "backward", None)  # whoever calls it fails
        assert gradients(make(2)) == {}
    assert kept == []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x), pytest.raises(TypeError):
        gradients(make(1))
    assert kept


def test_a_mix_learns_over_frozen_layers(tiny_checkpoint):
    assert gradients(make_model(tiny_checkpoint, frozen_layers=2, layer="mix")).keys() == {"states.weights", "states.factor"}


@pytest.mark.parametrize("adam", [Adam, create_adamw])
def test_what_is_frozen_does_not_move_and_thaws(tiny_checkpoint, adam):
    model = make_model(tiny_checkpoint)
    shim, optimizer = model.shims[0], adam(0.1)

    def moved(frozen) -> set[str]:
        shim.freeze(frozen)
        assert all(p.grad is None for p in shim.module.parameters() if not p.requires_grad)
        before = {name: p.detach().clone() for name, p in shim.module.named_parameters()}
        batch, backprop = model.begin_update(make_docs(DOCS))
        backprop(numpy.ones_like(batch.rows) * numpy.arange(batch.rows.shape[1], dtype="float32"))
        model.finish_update(optimizer)
        optimizer.step_schedules()
        return {name for name, p in shim.module.named_parameters() if not torch.equal(p, before[name])}

    everything = moved(0)
    assert any(".embeddings." in name for name in everything)
    layers = moved("embeddings")
    assert layers == {name for name in everything if ".embeddings." not in name}
    assert moved(1) == {name for name in everything if ".layer.1." in name}
    assert moved(2) == set()
    assert moved(0) == everything


def test_what_is_frozen_loses_its_gradient(tiny_checkpoint):
    model = make_model(tiny_checkpoint)
    assert gradients(model)
    model.shims[0].freeze(2)
    assert all(p.grad is None for p in model.shims[0].module.parameters())


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_gradient_checkpointing_gives_the_same_gradients(tiny_checkpoint, precision, dropout, monkeypatch):
    """Also with dropout, which must fall on the same values when they are computed again."""
    # Rows of several windows, which checkpointing does not have, would draw other numbers, and their kernel rounds otherwise.
    for module in (backbone, transformer):
        monkeypatch.setattr(module, "can_pack", lambda transformer: False)
    results = []
    for checkpointing in (False, True):
        model = build_transformer_backbone(
            str(tiny_checkpoint),
            precision=precision,
            gradient_checkpointing=checkpointing,
            transformer_config={"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": 0.0},
        )
        model.initialize()
        model.predict(make_docs(DOCS))  # makes the copy in lower precision
        torch.manual_seed(1)
        results.append(gradients(model))
        assert not model.shims[0].module.training
    assert results[0].keys() == results[1].keys()
    for name, gradient in results[0].items():
        torch.testing.assert_close(results[1][name], gradient, atol=1e-6, rtol=1e-5, msg=name)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layer": 9}, r"E106\].*'layer'.*between -3 and 2.*found 9"),
        ({"layer": "top"}, r"E106\].*'layer'.*`mix`.*found 'top'"),
        ({"frozen_layers": -1}, r"E106\].*'frozen_layers'.*at least 0"),
        ({"frozen_layers": 3}, r"E106\].*'frozen_layers'.*at most 2.*found 3"),
        ({"frozen_layers": "all"}, r"E106\].*'frozen_layers'.*`embeddings`.*found 'all'"),
    ],
)
def test_settings_out_of_range(tiny_checkpoint, settings, message):
    with pytest.raises(ValueError, match=message):
        make_model(tiny_checkpoint, **settings)


def test_layers_that_share_weights_cannot_be_frozen_apart(family_folder):
    with pytest.raises(ValueError, match=r"E106\].*'frozen_layers'.*share their weights"):
        make_model(family_folder("albert"), window=48, stride=32, frozen_layers=1)
    assert gradients(make_model(family_folder("albert"), window=48, stride=32, frozen_layers=2)) == {}


def test_more_frozen_layers_than_a_loaded_backbone_has(tiny_checkpoint):
    saved = make_model(tiny_checkpoint).to_bytes()
    with pytest.raises(ValueError, match=r"E106\].*'frozen_layers'.*at most 2.*found 3"):
        build_transformer_backbone("nowhere", frozen_layers=3).from_bytes(saved)


def test_budget_is_halved_when_the_device_runs_out_of_memory(tiny_checkpoint, monkeypatch):
    model = make_model(tiny_checkpoint, window=16, stride=10, budget=256)
    docs = make_docs()
    expected, sizes = model.predict(docs).rows, []
    shim = model.shims[0]
    predict = shim.predict

    def little_memory(groups):
        sizes.append(max(ids.numel() for ids, *_ in groups))
        if sizes[-1] > 64:
            raise torch.OutOfMemoryError
        return predict(groups)

    monkeypatch.setattr(shim, "predict", little_memory)
    numpy.testing.assert_allclose(model.predict(docs).rows, expected, atol=1e-5)
    assert len(sizes) == 3
    monkeypatch.setattr(shim, "predict", lambda groups: (_ for _ in ()).throw(torch.OutOfMemoryError()))
    with pytest.raises(torch.OutOfMemoryError):
        model.predict(docs)
