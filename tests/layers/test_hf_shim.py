import copy

import pytest
import torch
from safetensors.torch import load, save
from transformers import AutoModel

from spacy_attention.layers import loading
from spacy_attention.layers.hf_shim import CheckpointShim

from ..helpers import whole_window


def make_shim(**config) -> CheckpointShim:
    return CheckpointShim(precision="float32", tokenizer_config={}, transformer_config=config)


@pytest.fixture
def shim(tiny_checkpoint) -> CheckpointShim:
    made = make_shim()
    made.load_checkpoint(str(tiny_checkpoint))
    return made


def inputs(ids: list[int]):
    return ([whole_window(ids)],)


def test_holds_the_weights_of_the_checkpoint(shim, tiny_checkpoint):
    theirs = AutoModel.from_pretrained(tiny_checkpoint).eval()
    for name, weight in theirs.state_dict().items():
        assert torch.equal(shim.transformer.state_dict()[name], weight), name
    with torch.no_grad():
        expected = theirs(torch.tensor([[2, 9, 8, 3]])).last_hidden_state[0]
    torch.testing.assert_close(shim.predict(*inputs([2, 9, 8, 3])), expected, atol=1e-5, rtol=0)


def test_settings_override_the_checkpoint(tiny_checkpoint):
    shim = make_shim(hidden_dropout_prob=0.25)
    shim.load_checkpoint(str(tiny_checkpoint))
    assert shim.transformer.config.hidden_dropout_prob == 0.25


def test_bytes_rebuild_all_without_the_checkpoint(shim, monkeypatch):
    def refuse(name):
        raise AssertionError("the checkpoint was looked up")

    monkeypatch.setattr(loading, "find_checkpoint", refuse)
    data = shim.to_bytes()
    torch.manual_seed(5)
    other = make_shim()
    other.from_bytes(data)
    assert torch.equal(other.predict(*inputs([2, 9, 8, 3])), shim.predict(*inputs([2, 9, 8, 3])))
    assert other.tokenizer.get_vocab() == shim.tokenizer.get_vocab()
    assert other.tokenizer.backend_tokenizer.encode_special_tokens
    assert other.to_bytes() == data
    assert not other.module.training
    for pickled in (b"PK\x03\x04", b"\x80\x02}", b"\x80\x04\x95"):
        assert pickled not in data


def test_bytes_without_weights():
    empty = make_shim()
    assert not make_shim().from_bytes(empty.to_bytes()).ready
    for use in (lambda: empty.tokenizer, lambda: empty.transformer):
        with pytest.raises(ValueError, match="E105"):
            use()


def test_copy_has_its_own_weights_and_asks_itself(shim):
    for copied in (shim.copy(), copy.deepcopy(shim)):
        assert copied.id != shim.id
        assert copied.below_top.__self__ is copied
        with torch.no_grad():
            copied.transformer.encoder.layer[0].output.dense.bias.add_(1.0)
        assert not torch.equal(copied.predict(*inputs([2, 9, 3])), shim.predict(*inputs([2, 9, 3])))


def test_depth_of_weights(shim):
    depths = {key.name.removeprefix("transformer."): key.below_top for key, _ in shim.parameters()}
    assert depths["embeddings.word_embeddings.weight"] == 2
    assert depths["encoder.layer.0.attention.self.query.weight"] == 1
    assert depths["encoder.layer.1.output.dense.bias"] == 0
    assert depths["pooler.dense.weight"] == 0


def test_weights_that_do_not_fit_the_configuration(shim):
    import srsly

    message = srsly.msgpack_loads(shim.to_bytes())
    weights = load(message["weights"])
    del weights["transformer.encoder.layer.1.output.dense.bias"]
    message["weights"] = save(weights)
    with pytest.raises(ValueError, match=r"E108\].*backbone.*encoder\.layer\.1\.output\.dense\.bias"):
        make_shim().from_bytes(srsly.msgpack_dumps(message))
