import copy

import pytest
import torch
from transformers import (
    BertConfig,
    BertModel,
    CamembertConfig,
    CamembertModel,
    DistilBertConfig,
    DistilBertModel,
    RobertaConfig,
    RobertaModel,
)

from spacy_attention.nn.narrow import NARROW, narrow_hidden_states

SIZES = {
    "vocab_size": 40,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 20,
    "initializer_range": 0.2,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
IDS = torch.arange(2, 14).view(2, 6)
FAMILIES = [(BertModel, BertConfig), (RobertaModel, RobertaConfig), (CamembertModel, CamembertConfig)]


def build(model, config):
    torch.manual_seed(0)
    return model(config(**SIZES)).train()


def learn(transformer, *, autocast: bool) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Last hidden states, and the gradient of every weight that has one."""
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        hidden = transformer(IDS).last_hidden_state
    hidden.float().square().sum().backward()
    return hidden.detach(), {name: p.grad for name, p in transformer.named_parameters() if p.grad is not None}


def cosine(a: torch.Tensor, b: torch.Tensor) -> float:
    return torch.cosine_similarity(a.flatten().float(), b.flatten().float(), dim=0).item()


@pytest.mark.parametrize(("model", "config"), FAMILIES, ids=lambda x: x.__name__)
def test_every_layer_gets_bfloat16_and_every_weight_its_gradient(model, config):
    exact = build(model, config)
    narrow = copy.deepcopy(exact)
    assert narrow.config.model_type in NARROW
    narrow_hidden_states(narrow)
    seen = []
    for layer in narrow.encoder.layer:
        layer.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].dtype))
    hidden, gradients = learn(narrow, autocast=True)
    assert seen == [torch.bfloat16] * 2
    expected, exact_gradients = learn(exact, autocast=False)
    assert cosine(hidden, expected) > 0.999
    assert gradients.keys() == exact_gradients.keys()
    whole = [torch.cat([g.flatten() for g in each.values()]) for each in (gradients, exact_gradients)]
    assert cosine(*whole) > 0.99
    assert all(g.dtype == torch.float32 for g in gradients.values())


def test_without_autocast_nothing_changes():
    exact = build(BertModel, BertConfig)
    narrow = copy.deepcopy(exact)
    narrow_hidden_states(narrow)
    found, gradients = learn(narrow, autocast=False)
    expected, exact_gradients = learn(exact, autocast=False)
    assert torch.equal(found, expected)
    assert all(torch.equal(gradients[name], exact_gradients[name]) for name in exact_gradients)


def test_other_families_stay_as_they_are():
    torch.manual_seed(0)
    transformer = DistilBertModel(DistilBertConfig(vocab_size=40, dim=32, n_layers=1, n_heads=4, hidden_dim=64))
    narrow_hidden_states(transformer)
    assert not transformer.embeddings._forward_hooks
