from types import SimpleNamespace

import pytest
import torch

from spacy_attention.nn.hidden_states import LastState, MixedStates, OneState, choose_states


@pytest.fixture
def output():
    states = [torch.full((1, 2, 3), float(i)) for i in range(3)]
    return SimpleNamespace(last_hidden_state=states[-1], hidden_states=tuple(states))


@pytest.mark.parametrize(
    ("layer", "kind", "value"), [(-1, LastState, 2.0), (2, LastState, 2.0), (0, OneState, 0.0), (-2, OneState, 1.0)]
)
def test_one_layer(output, layer, kind, value):
    states = choose_states(layer, 2)
    assert type(states) is kind
    assert torch.equal(states(output), torch.full((1, 2, 3), value))


def test_mix_starts_as_the_mean_and_learns(output):
    mix = choose_states("mix", 2)
    assert isinstance(mix, MixedStates)
    torch.testing.assert_close(mix(output), torch.ones(1, 2, 3))
    mix.weights.data = torch.tensor([0.0, 0.0, torch.log(torch.tensor(2.0))])
    mix.factor.data = torch.tensor([3.0])
    # Shares 1/4, 1/4, 1/2: (0 + 1 + 4) / 4, times 3.
    torch.testing.assert_close(mix(output), torch.full((1, 2, 3), 3.75))
    mix(output).sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in mix.parameters())
