import pytest
import torch
from torch import nn

from spacy_attention.nn import encoder as encoder_module
from spacy_attention.nn.encoder import Block, Encoder, EncoderSizes, below_top, build_encoder

WIDTH = 12


def sizes(**changed) -> EncoderSizes:
    given = dict(
        input_width=WIDTH,
        width=WIDTH,
        depth=2,
        heads=3,
        ff_width=20,
        activation="gelu",
        norm="pre",
        positions="none",
        attention="full",
        mask="bidirectional",
        identity=False,
    )
    return EncoderSizes(**{**given, **changed})


def encoder(**changed) -> Encoder:
    """An encoder in evaluation mode, every weight random, so that no branch is switched off by its start."""
    torch.manual_seed(0)
    made = build_encoder(**sizes(**changed)._asdict())
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.3)
    return made.eval()


def torch_layer(block: Block, norm: str, activation: str) -> nn.TransformerEncoderLayer:
    layer = nn.TransformerEncoderLayer(
        WIDTH, 3, 20, dropout=0.0, activation=activation, batch_first=True, norm_first=norm == "pre"
    )
    pairs = [
        (layer.self_attn.in_proj_weight, block.attention.project_in.weight),
        (layer.self_attn.in_proj_bias, block.attention.project_in.bias),
        (layer.self_attn.out_proj.weight, block.attention.project_out.weight),
        (layer.self_attn.out_proj.bias, block.attention.project_out.bias),
        (layer.linear1.weight, block.feed_forward.project_in.weight),
        (layer.linear1.bias, block.feed_forward.project_in.bias),
        (layer.linear2.weight, block.feed_forward.project_out.weight),
        (layer.linear2.bias, block.feed_forward.project_out.bias),
        (layer.norm1.weight, block.attention_norm.weight),
        (layer.norm1.bias, block.attention_norm.bias),
        (layer.norm2.weight, block.feed_forward_norm.weight),
        (layer.norm2.bias, block.feed_forward_norm.bias),
    ]
    for theirs, ours in pairs:
        theirs.data.copy_(ours.data)
    layer.pairs = pairs
    return layer


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("lengths", [[5, 5], [5, 2]])
@pytest.mark.parametrize("activation", ["gelu", "relu"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_block_parity_with_torch(norm, activation, lengths, train):
    block = encoder(norm=norm, activation=activation).blocks[0].train(train)
    theirs = torch_layer(block, norm, activation).train(train)
    mask = torch.arange(5) < torch.tensor(lengths)[:, None]
    X1 = torch.randn(2, 5, WIDTH, requires_grad=True)
    X2 = X1.detach().clone().requires_grad_()
    Y1, Y2 = block(X1, mask), theirs(X2, src_key_padding_mask=~mask)
    torch.testing.assert_close(Y1[mask], Y2[mask], atol=1e-5, rtol=0)
    dY = torch.randn(2, 5, WIDTH) * mask[..., None]
    Y1.backward(dY)
    Y2.backward(dY)
    torch.testing.assert_close(X1.grad, X2.grad, atol=1e-5, rtol=1e-5)
    for their_weight, our_weight in theirs.pairs:
        torch.testing.assert_close(our_weight.grad, their_weight.grad, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_without_positions_permuted_input_gives_permuted_output(norm):
    model = encoder(norm=norm)
    rows, order = torch.randn(7, WIDTH), torch.randperm(7)
    lengths = torch.tensor([7])
    Y, permuted = model(rows, lengths), model(rows[order], lengths)
    torch.testing.assert_close(permuted, Y[order], atol=1e-6, rtol=0)


def test_with_positions_order_matters():
    model = encoder(positions="sinusoidal")
    rows = torch.randn(7, WIDTH)
    lengths = torch.tensor([7])
    assert (model(rows.flip(0), lengths).flip(0) - model(rows, lengths)).abs().max() > 1e-2


@pytest.mark.parametrize("mask", ["bidirectional", "causal"])
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("positions", ["none", "sinusoidal"])
def test_document_alone_as_in_a_batch(norm, positions, mask):
    model = encoder(norm=norm, positions=positions, mask=mask)
    lengths = [3, 0, 1, 8, 0]
    docs = [torch.randn(n, WIDTH) for n in lengths]
    together = model(torch.cat(docs), torch.tensor(lengths)).split(lengths)
    for doc, Y in zip(docs, together, strict=True):
        torch.testing.assert_close(Y, model(doc, torch.tensor([len(doc)])), atol=1e-6, rtol=0)


def test_padding_changes_neither_output_nor_gradient_of_short_documents():
    model = encoder(positions="sinusoidal")
    short = torch.randn(2, WIDTH)
    dY = torch.randn(2, WIDTH)
    seen = []
    for others in ([], [2], [60]):
        model.zero_grad()
        rows = torch.cat([short, torch.randn(sum(others), WIDTH)]).requires_grad_()
        Y = model(rows, torch.tensor([2, *others]))
        Y[:2].backward(dY)
        assert not rows.grad[2:].any()
        weight = model.blocks[0].attention.project_in.weight.grad
        seen.append((Y[:2].detach(), rows.grad[:2], weight.clone()))
    for other in seen[1:]:
        for a, b in zip(seen[0], other, strict=True):
            torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_groups_change_neither_output_nor_gradient(norm, monkeypatch):
    model = encoder(norm=norm, positions="sinusoidal", mask="causal")
    lengths = torch.tensor([3, 0, 7, 1, 7, 2])
    rows = torch.randn(20, WIDTH)
    dY, seen = torch.randn(20, WIDTH), []
    for padded_rows in (10_000, 14, 1):
        monkeypatch.setattr(encoder_module, "PADDED_ROWS", padded_rows)
        X = rows.clone().requires_grad_()
        Y = model(X, lengths)
        Y.backward(dY)
        seen.append((Y.detach(), X.grad))
    for other in seen[1:]:
        for a, b in zip(seen[0], other, strict=True):
            torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("others", [[], [9]])
def test_causal_mask_blocks_the_gradient_of_what_comes_later(others):
    rows = torch.randn(6 + sum(others), WIDTH, requires_grad=True)
    lengths = torch.tensor([6, *others])
    encoder(mask="causal")(rows, lengths)[2].sum().backward()
    assert not rows.grad[3:].any()
    assert (rows.grad[:3].abs().amax(1) > 1e-4).all()
    rows.grad = None
    encoder()(rows, lengths)[2].sum().backward()
    assert (rows.grad[:6].abs().amax(1) > 1e-4).all()


def test_starts_as_the_identity():
    torch.manual_seed(0)
    model = build_encoder(**sizes(identity=True)._asdict())
    rows = torch.randn(9, WIDTH)
    lengths = torch.tensor([4, 0, 5])
    for mode in (model.eval(), model.train()):
        torch.testing.assert_close(mode(rows, lengths), rows, atol=1e-6, rtol=0)


def test_identity_start_still_learns():
    torch.manual_seed(0)
    model = build_encoder(**sizes(identity=True)._asdict())
    model(torch.randn(5, WIDTH), torch.tensor([5])).pow(2).sum().backward()
    for block in model.blocks:
        for linear in (block.attention.project_out, block.feed_forward.project_out):
            assert linear.weight.grad.abs().max() > 1e-3


@pytest.mark.parametrize("changed", [{}, {"norm": "post"}, {"positions": "sinusoidal"}, {"input_width": 7}])
def test_other_starts_are_not_the_identity_and_end_in_a_norm(changed):
    torch.manual_seed(0)
    model = build_encoder(**sizes(**changed)._asdict()).eval()
    rows = 5 * torch.randn(6, changed.get("input_width", WIDTH))
    Y = model(rows, torch.tensor([6]))
    assert Y.shape == (6, WIDTH)
    torch.testing.assert_close(Y.mean(1), torch.zeros(6), atol=1e-5, rtol=0)
    torch.testing.assert_close(Y.var(1, unbiased=False), torch.ones(6), atol=1e-3, rtol=0)


@pytest.mark.parametrize("changed", [{"norm": "pre"}, {"norm": "post"}, {"positions": "sinusoidal", "norm": "post"}])
def test_fresh_encoder_drops_its_input_in_training_whatever_the_norm(changed):
    model = encoder(depth=1, **changed).train()
    for parameter in model.blocks.parameters():
        nn.init.zeros_(parameter)
    for block in model.blocks:
        nn.init.ones_(block.attention_norm.weight)
        nn.init.ones_(block.feed_forward_norm.weight)
    model.dropout.p = 0.5  # the only dropout that is left, all branches being zero
    rows, lengths = torch.randn(20, WIDTH), torch.tensor([20])
    assert not torch.equal(model(rows, lengths), model(rows, lengths))
    model.eval()
    assert torch.equal(model(rows, lengths), model(rows, lengths))


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_batch_of_empty_documents(norm):
    Y = encoder(norm=norm, positions="sinusoidal", input_width=7)(torch.zeros(0, 7), torch.tensor([0, 0]))
    assert Y.shape == (0, WIDTH)


def test_gradient_by_finite_differences():
    model = encoder(depth=1, positions="sinusoidal").double()
    rows = torch.randn(4, WIDTH, dtype=torch.float64, requires_grad=True)
    lengths = torch.tensor([3, 0, 1])
    assert torch.autograd.gradcheck(lambda x: model(x, lengths), rows)


def test_same_seed_same_start():
    torch.manual_seed(3)
    first = build_encoder(**sizes()._asdict()).state_dict()
    torch.manual_seed(3)
    again = build_encoder(**sizes()._asdict()).state_dict()
    torch.manual_seed(4)
    other = build_encoder(**sizes()._asdict()).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_depth_of_weights():
    model = encoder(depth=3, input_width=7, positions="sinusoidal")
    depths = {name: below_top(name, 3) for name, _ in model.named_parameters()}
    assert depths["project.weight"] == 3
    assert depths["blocks.0.attention.project_in.weight"] == 2
    assert depths["blocks.2.feed_forward_norm.bias"] == 0
    assert depths["norm.weight"] == 0
