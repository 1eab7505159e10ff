"""Every model family through a whole pipeline, and against Hugging Face's own forward."""

import numpy
import pytest
import spacy
import torch
from thinc.api import fix_random_seed
from transformers import AutoModel, AutoTokenizer

from spacy_attention.layers import backbone
from spacy_attention.layers.grouping import Passes
from spacy_attention.layers.hf_shim import CheckpointShim
from spacy_attention.layers.loading import encoder_part
from spacy_attention.layers.precision import has_native_bfloat16
from spacy_attention.layers.windows import cut_windows
from spacy_attention.models.backbone import build_transformer_backbone
from spacy_attention.nn.prepacked_linear import PrepackedLinear
from spacy_attention.nn.transformer import PACKABLE, can_pack

from .. import helpers
from ..checkpoint_families import FAMILIES, POSITIONS
from ..helpers import BACKBONE, TEXTCAT

WINDOW = {"window": 48, "stride": 32}
LONG = " ".join(text for text, _, _ in helpers.SENTENCES * 3)
TEXTS = ["Ann Lee wants her money back", "", "  \n ", "thanks", LONG, "naïve 😀 Zürich", "My order 4711 never arrived"]
ENCODER_DECODER = {"t5"}


@pytest.fixture(params=FAMILIES)
def family(request) -> str:
    return request.param


@pytest.fixture
def folder(family, family_folder):
    return family_folder(family)


@pytest.fixture
def nlp(folder):
    """The backbone of the family with our classifier listening."""
    made = spacy.blank("en")
    helpers.add_backbone(made, folder, **WINDOW)
    helpers.add_head(made, TEXTCAT)
    helpers.initialize(made)
    return made


def rows_of(doc) -> numpy.ndarray:
    return doc._.trf_data.model_output.last_hidden_state[0]


def run_hugging_face(folder, text: str) -> tuple[numpy.ndarray, list[int]]:
    """States of a text in one window with all that the tokenizer puts around it, padded on the right; and which pieces are text."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = encoder_part(AutoModel.from_pretrained(folder).eval())
    encoding = tokenizer(text, return_special_tokens_mask=True)
    ids = torch.tensor([[*encoding["input_ids"], *[tokenizer.pad_token_id or 0] * 5]])
    mask = torch.arange(ids.shape[1])[None] < len(encoding["input_ids"])
    with torch.no_grad():
        hidden = model(input_ids=ids, attention_mask=mask.long()).last_hidden_state[0].numpy()
    return hidden, [i for i, special in enumerate(encoding["special_tokens_mask"]) if not special]


def test_hidden_states_equal_hugging_face(nlp, folder):
    docs = list(nlp.pipe(TEXTS))
    for doc in docs:
        if doc.text not in ("", LONG):
            hidden, inner = run_hugging_face(folder, doc.text)
            # The document's own row is that of the window's first piece.
            numpy.testing.assert_allclose(rows_of(doc), hidden[[0, *inner]], atol=1e-5, err_msg=doc.text)
    assert numpy.abs(rows_of(docs[0])).max() > 0.1


def test_long_document_goes_through_windows(nlp, folder):
    doc = nlp(LONG)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(LONG, add_special_tokens=False)["input_ids"]
    assert len(ids) > POSITIONS
    assert rows_of(doc).shape == (1 + len(ids), helpers.WIDTH)
    assert doc._.trf_data.wordpieces.input_ids.reshape(-1).tolist() == ids
    assert doc._.trf_data.align.lengths.min() >= 1
    # The first window is what Hugging Face makes of the first pieces.
    n_special = tokenizer.num_special_tokens_to_add()
    ((_, first), *_) = cut_windows(len(ids), WINDOW["window"] - n_special, WINDOW["stride"])
    window = tokenizer(LONG, truncation=True, max_length=int(first) + n_special, return_special_tokens_mask=True)
    model = encoder_part(AutoModel.from_pretrained(folder).eval())
    with torch.no_grad():
        expected = model(input_ids=torch.tensor([window["input_ids"]])).last_hidden_state[0].numpy()
    before = window["special_tokens_mask"][0]
    numpy.testing.assert_allclose(rows_of(doc)[1:17], expected[before : before + 16], atol=1e-5)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_windows_that_share_a_pass_do_not_see_each_other(folder, family, monkeypatch, precision):
    """Rows and gradients are those of windows that are read length by length."""
    make_doc = spacy.blank("en").make_doc
    texts = [*TEXTS, "one", "one two three", LONG, "thanks a lot"]
    results = []
    for packed in (True, False):

        def passes_for(shim, *limits, packed=packed):
            return Passes(*limits, packed and can_pack(shim.transformer), block_cost=4, crooked_cost=0.1, multiple=7)

        monkeypatch.setattr(backbone, "passes_for", passes_for)
        no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        model = build_transformer_backbone(str(folder), precision=precision, **WINDOW, transformer_config=no_dropout)
        model.initialize()
        model.shims[0].module.eval()
        assert can_pack(model.shims[0].transformer) == (family in PACKABLE)
        docs = [make_doc(text) for text in texts]
        predicted = model.predict(docs).rows
        batch, backprop = model.begin_update(docs)
        backprop(numpy.random.default_rng(0).normal(size=batch.rows.shape).astype("float32"))
        gradients = {key.name: p.grad.to_dense().clone() for key, p in model.shims[0].parameters() if p.grad is not None}
        results.append((predicted, batch.rows, gradients))
    (packed, trained, gradients), (expected, expected_trained, expected_gradients) = results
    tolerance = 2e-5 if precision == "float32" else 0.1
    numpy.testing.assert_allclose(packed, expected, atol=tolerance)
    if family in PACKABLE:
        numpy.testing.assert_allclose(trained, expected_trained, atol=tolerance)
        assert gradients.keys() == expected_gradients.keys()
        for name, gradient in gradients.items():
            largest = float(expected_gradients[name].abs().max()) + 0.01  # that of the keys' bias is zero but for rounding
            assert float((gradient - expected_gradients[name]).abs().max()) <= 5 * tolerance * largest, name


@pytest.mark.skipif(not has_native_bfloat16(torch.device("cpu")), reason="a processor without native bfloat16")
def test_prepacked_layers_give_the_same_vectors(folder, family, monkeypatch):
    model = build_transformer_backbone(str(folder), precision="bfloat16", **WINDOW)
    model.initialize()
    (shim,) = model.shims
    docs = list(map(spacy.blank("en").make_doc, TEXTS))
    packed = model.predict(docs).rows
    kinds = {type(part) for part in shim._low_precision[1].modules()}
    # GPT-2 has a class of its own for linear layers.
    assert (PrepackedLinear in kinds) == (family != "gpt2")
    monkeypatch.setattr("spacy_attention.layers.shim.can_prepack", lambda: False)
    shim._low_precision = None
    numpy.testing.assert_allclose(packed, model.predict(docs).rows, atol=0.1)
    assert PrepackedLinear not in {type(part) for part in shim._low_precision[1].modules()}
    assert PrepackedLinear not in {type(part) for part in shim.module.modules()}


def test_update_moves_the_weights(nlp):
    before = helpers.weights_of(nlp)
    examples = helpers.make_examples(nlp)
    optimizer = nlp.resume_training()
    optimizer.learn_rate = 0.01
    losses = helpers.train(nlp, examples, optimizer, 2)
    assert numpy.isfinite(losses).all()
    after = helpers.weights_of(nlp)
    moved = {key for key in before if not numpy.array_equal(before[key], after[key])}
    unmoved = {key for key in before if key.startswith(BACKBONE)} - moved
    # A classifier reads no pooler, and Longformer has weights for global rows, which nothing asks for.
    allowed = ("pooler", "_global", "position", "token_type")
    assert [key for key in unmoved if not any(part in key for part in allowed)] == []
    assert any(key.startswith(TEXTCAT) for key in moved)


def test_bytes_without_the_folder(nlp, family):
    docs = list(nlp.pipe(TEXTS))
    again = spacy.blank("en")
    fix_random_seed(9)
    helpers.add_backbone(again, "a-folder-that-does-not-exist", **WINDOW)
    helpers.add_head(again, TEXTCAT)
    again.from_bytes(nlp.to_bytes())
    for doc, expected in zip(again.pipe(TEXTS), docs, strict=True):
        helpers.assert_same_outputs(doc, expected, atol=1e-6)
        if len(doc):
            numpy.testing.assert_array_equal(rows_of(doc), rows_of(expected))
    config = again.get_pipe(BACKBONE).model.shims[0]._config
    assert bool(config.is_encoder_decoder) == (family in ENCODER_DECODER)


@pytest.fixture
def shim(folder) -> CheckpointShim:
    made = CheckpointShim(precision="float32", tokenizer_config={}, transformer_config={})
    made.load_checkpoint(str(folder))
    return made


def test_longest_window_fits_and_one_more_piece_does_not(shim, family):
    """As the model counts, also where the tokenizer sets no limit."""
    shim.tokenizer.model_max_length = int(1e30)
    if family in ("t5", "modernbert", "deberta-v2"):
        # No table of positions that could end, or none that is asked beyond its end.
        assert shim.longest in (1e30, POSITIONS)
        return

    def run(length: int) -> torch.Tensor:
        return shim.predict([helpers.whole_window([60] * length)])

    longest = int(shim.longest)
    assert longest == (POSITIONS - 2 if family in ("roberta", "xlm-roberta", "longformer") else POSITIONS)
    assert run(longest).shape == (longest, helpers.WIDTH)
    if family != "longformer":  # pads itself up to a multiple of its own window, with one position for all padding
        with pytest.raises((IndexError, RuntimeError)):
            run(longest + 1)


def test_limit_of_the_tokenizer_counts_as_well(shim):
    shim.tokenizer.model_max_length = 77
    assert shim.longest == 77


def test_depths_of_weights(shim, family):
    depths = {key.name: key.below_top for key, _ in shim.parameters()}
    words = [
        depth for name, depth in depths.items() if "word_embeddings.weight" in name or "embed_tokens" in name or "wte" in name
    ]
    if family == "modernbert":
        words = [depths["transformer.embeddings.tok_embeddings.weight"]]
    assert words == [2]
    # ALBERT's layers share their weights, so these belong to the top as well.
    assert set(depths.values()) == ({0, 2} if family == "albert" else {0, 1, 2})


def test_tokenizer_settings_of_the_checkpoint_do_no_harm(folder, tmp_path, shim):
    """Truncation, padding with a piece that the model does not know, no limit of length."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"pad_token": "[nothing]"})
    tokenizer.backend_tokenizer.enable_truncation(8)
    tokenizer.backend_tokenizer.enable_padding(length=16, pad_id=tokenizer.pad_token_id, pad_token="[nothing]")
    tokenizer.model_max_length = int(1e30)
    tokenizer.save_pretrained(tmp_path)
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    rows = []
    for checkpoint in (folder, tmp_path):
        nlp = spacy.blank("en")
        helpers.add_backbone(nlp, checkpoint, **WINDOW)
        nlp.initialize()
        rows.append([rows_of(doc) for doc in nlp.pipe(TEXTS) if len(doc)])
    for found, expected in zip(*rows, strict=True):
        numpy.testing.assert_allclose(found, expected, atol=1e-5)
