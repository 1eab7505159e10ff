import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from spacy_attention.layers.shim import TorchShim
from spacy_attention.nn.float32_attention import Float32Attention


def projections(dtype: torch.dtype) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(2, 3, 5, 4).to(dtype).requires_grad_() for _ in range(3)]


@pytest.mark.parametrize("masked", [False, True])
def test_computes_in_float32_and_returns_the_type_of_the_queries(masked):
    query, key, value = projections(torch.bfloat16)
    mask = torch.zeros(2, 1, 5, 5, dtype=torch.bfloat16)
    mask[..., 4] = -1e4
    options = {"attn_mask": mask if masked else None}
    with Float32Attention():
        found = scaled_dot_product_attention(query, key, value, **options)
    exact = scaled_dot_product_attention(query.float(), key.float(), value.float(), attn_mask=mask.float() if masked else None)
    assert found.dtype == torch.bfloat16
    assert torch.equal(found, exact.to(torch.bfloat16))
    found.float().sum().backward()
    assert all(x.grad.dtype == torch.bfloat16 for x in (query, key, value))


def test_leaves_other_functions_alone():
    a, b = torch.ones(2, 2, dtype=torch.bfloat16), torch.ones(2, 2, dtype=torch.bfloat16)
    with Float32Attention():
        assert (a @ b).dtype == torch.bfloat16


class Attend(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query = self.project(x)
        self.query_type = query.dtype
        output = scaled_dot_product_attention(query, query, query)
        self.types = {node.name(): node._saved_query.dtype for node in ancestors(output.grad_fn) if hasattr(node, "_saved_query")}
        return output


def ancestors(node):
    yield node
    for before, _ in node.next_functions:
        if before is not None:
            yield from ancestors(before)


@pytest.mark.parametrize(("precision", "around"), [("bfloat16", torch.bfloat16), ("float32", torch.float32)])
def test_the_shim_uses_it_in_updates(precision, around):
    shim = TorchShim(Attend, component="encoder", precision=precision)
    shim.create()
    X = torch.randn(1, 2, 3, 4, requires_grad=True)
    output, backprop = shim.begin_update(X)
    backprop(torch.ones_like(output))
    assert shim.module.query_type == around
    assert set(shim.module.types.values()) == {torch.float32}
    assert X.grad.isfinite().all()
