import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_attention.nn.viterbi import viterbi

from .brute_force import distribution, is_valid, score
from .test_crf import chain


@pytest.mark.parametrize(("length", "n_labels"), [(1, 2), (3, 2), (4, 2), (5, 1)])
@pytest.mark.parametrize("seed", range(5))
def test_viterbi_equals_enumeration(length, n_labels, seed):
    emissions, lengths, transitions = chain([length], n_labels, seed=seed, scale=2.0)
    probabilities, _ = distribution(emissions, transitions)
    assert tuple(viterbi(emissions, lengths, transitions).tolist()) == max(probabilities, key=probabilities.get)


def test_viterbi_of_a_ragged_batch_equals_documents_alone():
    lengths = [3, 0, 7, 1, 7, 2, 0]
    emissions, n, transitions = chain(lengths, 3, scale=2.0)
    together = viterbi(emissions, n, transitions)
    alone = [viterbi(part, torch.tensor([len(part)]), transitions) for part in emissions.split(lengths)]
    assert together.tolist() == torch.cat(alone).tolist()


scores = st.one_of(st.integers(-3, 3).map(float), st.floats(-1e4, 1e4, width=32))


@settings(max_examples=50, deadline=None)
@given(data=st.data(), n_labels=st.integers(1, 3), lengths=st.lists(st.integers(0, 6), min_size=1, max_size=4))
def test_viterbi_is_always_valid_and_never_worse_than_any_tagging(data, n_labels, lengths):
    n_tags = 4 * n_labels + 1
    draw = lambda n: data.draw(st.lists(scores, min_size=n, max_size=n))  # noqa: E731
    emissions = torch.tensor(draw(sum(lengths) * n_tags), dtype=torch.float64).reshape(-1, n_tags)
    transitions = torch.tensor(draw((n_labels + 1) ** 2), dtype=torch.float64).reshape(n_labels + 1, -1)
    best = viterbi(emissions, torch.tensor(lengths), transitions)
    for tags, part in zip(best.split(lengths), emissions.split(lengths), strict=True):
        assert is_valid(tags.tolist(), n_labels)
        everywhere_o = (0,) * len(tags)
        assert score(tuple(tags.tolist()), part, transitions) >= score(everywhere_o, part, transitions) - 1e-6


def test_empty_batch():
    emissions, lengths, transitions = chain([0, 0], 2)
    assert viterbi(emissions, lengths, transitions).tolist() == []
