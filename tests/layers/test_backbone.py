import numpy
import pytest
import spacy
import torch
from spacy.tokens import Doc
from thinc.api import Adam, Model
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import AutoModel, AutoTokenizer, GPT2Config, GPT2Model, PreTrainedTokenizerFast

from spacy_attention.layers.alignment import token_offsets
from spacy_attention.layers.windows import cut_windows
from spacy_attention.models.backbone import build_transformer_backbone

NLP = spacy.blank("en")
WIDTH = 32
LONG = "Ann Lee wants order 4711 back. Bob Stone paid twice for 99, many thanks! " * 6
TEXTS = ["Ann Lee wants her money back", "", "  \n ", "thanks", LONG, "😀", "", "My order 4711 never arrived"]


def make_model(checkpoint, **kwargs) -> Model:
    model = build_transformer_backbone(str(checkpoint), precision="float32", **kwargs)
    model.initialize()
    return model


def make_docs(texts=TEXTS) -> list[Doc]:
    return [NLP.make_doc(text) for text in texts]


def hidden_of(batch) -> list[numpy.ndarray]:
    return [
        data.model_output.last_hidden_state[0] if len(data.model_output) else numpy.zeros((0, WIDTH)) for data in batch.doc_data
    ]


class HuggingFace:
    """The same checkpoint, run by Hugging Face alone, one window at a time."""

    def __init__(self, checkpoint):
        self.tokenizer = AutoTokenizer.from_pretrained(checkpoint)
        self.model = AutoModel.from_pretrained(checkpoint).eval()

    def pieces(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    @torch.no_grad()
    def window(self, ids: list[int]) -> numpy.ndarray:
        """Rows of the window, special pieces included."""
        wrapped = [self.tokenizer.cls_token_id, *ids, self.tokenizer.sep_token_id]
        return self.model(torch.tensor([wrapped])).last_hidden_state[0].numpy()


@pytest.fixture
def reference(tiny_checkpoint) -> HuggingFace:
    return HuggingFace(tiny_checkpoint)


def test_documents_in_one_window_equal_hugging_face(tiny_checkpoint, reference):
    docs = make_docs()
    batch = make_model(tiny_checkpoint, window=512, stride=512).predict(docs)
    assert batch.rows.dtype == numpy.float32
    for doc, data in zip(docs, batch.doc_data, strict=True):
        if not len(doc):
            assert "last_hidden_state" not in data.model_output
            continue
        expected = reference.window(reference.pieces(doc.text))[:-1]
        numpy.testing.assert_allclose(data.model_output.last_hidden_state[0], expected, atol=1e-5)
    numpy.testing.assert_array_equal(numpy.concatenate(hidden_of(batch)), batch.rows)


@pytest.mark.parametrize(("window", "stride"), [(32, 20), (32, 30), (18, 5)])
def test_long_document_through_windows_equals_hugging_face(tiny_checkpoint, reference, window, stride):
    (doc,) = make_docs([LONG])
    ids = reference.pieces(LONG)
    cuts = [tuple(cut) for cut in cut_windows(len(ids), window - 2, stride).tolist()]
    assert len(cuts) > 3
    windows = {(start, end): reference.window(ids[start:end]) for start, end in cuts}
    batch = make_model(tiny_checkpoint, window=window, stride=stride).predict([doc])
    (hidden,) = hidden_of(batch)
    numpy.testing.assert_allclose(hidden[0], windows[cuts[0]][0], atol=1e-5)
    assert len(hidden) == len(ids) + 1
    for piece in range(len(ids)):
        holding = [(start, end) for start, end in cuts if start <= piece < end]
        same = [cut for cut in holding if abs(windows[cut][1 + piece - cut[0]] - hidden[1 + piece]).max() < 1e-5]
        assert same, piece
        # The chosen window is nearly the most central: tokens have up to a few pieces.
        from_edge = {(start, end): min(piece - start, end - 1 - piece) for start, end in holding}
        inner = cuts[0] not in holding and cuts[-1] not in holding
        assert not inner or max(from_edge[cut] for cut in same) >= max(from_edge.values()) - 4


@pytest.mark.parametrize("budget", [1, 40, 100])
def test_budget_changes_neither_output_nor_gradient(tiny_checkpoint, budget):
    docs, results = make_docs(), []
    for size in (budget, 100_000):
        model = make_model(tiny_checkpoint, window=32, stride=20, budget=size)
        batch, backprop = model.begin_update(docs)
        random = numpy.random.default_rng(0).normal(size=batch.rows.shape).astype("float32")
        backprop(random)
        grads = {
            key.name: parameter.grad.to_dense() for key, parameter in model.shims[0].parameters() if parameter.grad is not None
        }
        results.append((batch.rows, grads))
    numpy.testing.assert_allclose(results[0][0], results[1][0], atol=1e-5)
    assert results[0][1].keys() == results[1][1].keys()
    for name, gradient in results[0][1].items():
        torch.testing.assert_close(gradient, results[1][1][name], atol=1e-3, rtol=1e-3, msg=name)


def test_document_alone_as_in_a_batch(tiny_checkpoint):
    model = make_model(tiny_checkpoint, window=32, stride=20)
    together = hidden_of(model.predict(make_docs()))
    for text, expected in zip(TEXTS, together, strict=True):
        (alone,) = hidden_of(model.predict(make_docs([text])))
        numpy.testing.assert_allclose(alone, expected, atol=1e-5)


def test_update_gives_what_predict_gives(tiny_checkpoint):
    model = make_model(tiny_checkpoint, window=32, stride=20)
    docs = make_docs()
    batch, _ = model.begin_update(docs)
    numpy.testing.assert_allclose(batch.rows, model.predict(docs).rows, atol=1e-5)


def test_gradient_equals_hugging_face(tiny_checkpoint, reference):
    docs = make_docs(["Ann Lee wants her money back", "thanks a lot"])
    model = make_model(tiny_checkpoint)
    batch, backprop = model.begin_update(docs)
    d_rows = numpy.random.default_rng(0).normal(size=batch.rows.shape).astype("float32")
    backprop(d_rows)
    tokenizer = reference.tokenizer
    start = 0
    for doc in docs:
        ids = torch.tensor([[tokenizer.cls_token_id, *reference.pieces(doc.text), tokenizer.sep_token_id]])
        hidden = reference.model(ids).last_hidden_state[0, :-1]
        hidden.backward(torch.from_numpy(d_rows[start : start + len(hidden)]))
        start += len(hidden)
    theirs = {f"transformer.{name}": parameter.grad for name, parameter in reference.model.named_parameters()}
    for key, parameter in model.shims[0].parameters():
        if theirs[key.name] is None:
            assert parameter.grad is None
        else:
            torch.testing.assert_close(parameter.grad.to_dense(), theirs[key.name], atol=1e-4, rtol=1e-4, msg=key.name)


def test_tokens_are_aligned_with_the_pieces_they_share_characters_with(tiny_checkpoint, reference):
    docs = make_docs()
    batch = make_model(tiny_checkpoint, window=32, stride=20).predict(docs)
    for doc, data in zip(docs, batch.doc_data, strict=True):
        assert len(data.align.lengths) == len(doc)
        if not len(doc):
            continue
        offsets = reference.tokenizer(doc.text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        flat, at = data.align.dataXd.reshape(-1).tolist(), 0
        for start, end, length in zip(*token_offsets(doc), data.align.lengths, strict=True):
            expected = [1 + i for i, (a, b) in enumerate(offsets) if max(a, start) < min(b, end)]
            assert flat[at : at + length] == expected
            at += length


def test_nothing_but_empty_documents(tiny_checkpoint):
    model = make_model(tiny_checkpoint)
    for texts in ([], ["", ""]):
        batch, backprop = model.begin_update(make_docs(texts))
        assert batch.rows.shape == (0, WIDTH)
        assert len(batch.doc_data) == len(texts)
        backprop(batch.rows)
        assert batch.unsplit_by_doc([]).shape == (0, WIDTH)
    model.finish_update(Adam(0.1))


def test_gradients_of_documents_are_put_together(tiny_checkpoint):
    batch = make_model(tiny_checkpoint).predict(make_docs(["thanks", "", "a lot"]))
    arrays = [data.model_output.last_hidden_state for data in batch.doc_data if len(data.model_output)]
    numpy.testing.assert_array_equal(batch.unsplit_by_doc([[array] for array in arrays]), batch.rows)


def test_very_long_document_is_not_cut(tiny_checkpoint):
    (doc,) = make_docs([LONG * 20])
    assert len(doc) > 2000
    (data,) = make_model(tiny_checkpoint).predict([doc]).doc_data
    assert (data.align.lengths > 0).sum() == sum(not token.is_space for token in doc)
    assert data.align.dataXd.max() == data.model_output.last_hidden_state.shape[1] - 1


def test_token_longer_than_a_window(tiny_checkpoint):
    (doc,) = make_docs(["x" * 90])
    (data,) = make_model(tiny_checkpoint, window=12, stride=6).predict([doc]).doc_data
    # One word of 90 letters: WordPiece may give one [UNK] or many pieces; every one is there.
    assert data.align.lengths.tolist() == [data.model_output.last_hidden_state.shape[1] - 1]


def test_bfloat16_is_close_and_float32_outside(tiny_checkpoint):
    docs = make_docs()
    exact = make_model(tiny_checkpoint).predict(docs).rows
    model = build_transformer_backbone(str(tiny_checkpoint), precision="bfloat16")
    model.initialize()
    rows = model.predict(docs).rows
    assert rows.dtype == numpy.float32
    assert not numpy.array_equal(rows, exact)
    assert numpy.abs(rows - exact).mean() < 0.05


def test_window_longer_than_the_checkpoint_takes(tiny_checkpoint):
    with pytest.raises(ValueError, match=r"E106\].*'window'.*at most 512 .*found 513"):
        make_model(tiny_checkpoint, window=513)


@pytest.fixture
def without_special_pieces(tmp_path):
    """A random GPT-2 whose tokenizer puts nothing around a text."""
    words = Tokenizer(WordLevel({"[UNK]": 0, "a": 1, "b": 2}, "[UNK]"))
    words.pre_tokenizer = Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]").save_pretrained(tmp_path)
    torch.manual_seed(0)
    GPT2Model(GPT2Config(vocab_size=3, n_positions=64, n_embd=8, n_layer=1, n_head=2)).save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.parametrize("texts", [["  "], ["a b", "  ", "", "b"], ["a " * 90]])
def test_tokenizer_without_special_pieces(without_special_pieces, texts):
    model = make_model(without_special_pieces, window=32, stride=16)
    batch = model.predict(make_docs(texts))
    for text, data in zip(texts, batch.doc_data, strict=True):
        n_words = len(text.split())
        assert data.align.dataXd.reshape(-1).tolist() == list(range(1, n_words + 1))
        if text:
            assert data.model_output.last_hidden_state.shape == (1, n_words + 1, 8)
    if texts[0] == "a b":
        theirs = AutoModel.from_pretrained(without_special_pieces).eval()
        with torch.no_grad():
            expected = theirs(torch.tensor([[1, 2]])).last_hidden_state[0]
        numpy.testing.assert_allclose(batch.doc_data[0].model_output.last_hidden_state[0, 1:], expected, atol=1e-5)
