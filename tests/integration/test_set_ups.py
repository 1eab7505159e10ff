"""Our heads and stock heads on every kind of token vectors: each trains, saves, and loads with the same outputs."""

import numpy
import pytest
import spacy
from spacy.training import Example
from thinc.api import fix_random_seed

from spacy_attention.training.optimizer import create_adamw

from .. import helpers
from ..helpers import BACKBONE, EMBED, NER, STOCK_LISTENER, TEXTCAT, TOK2VEC_LISTENER, WIDTH

TEXTS = [text for text, _, _ in helpers.SENTENCES]


def add_stock_transformer(nlp, checkpoint):
    model = {
        "@architectures": "spacy-transformers.TransformerModel.v3",
        "name": str(checkpoint),
        "get_spans": {"@span_getters": "spacy-transformers.strided_spans.v1", "window": 128, "stride": 96},
        "tokenizer_config": {"use_fast": True},
        "transformer_config": {},
        "mixed_precision": False,
        "grad_scaler_config": {},
    }
    return nlp.add_pipe("transformer", config={"model": model})


def add_stock_tok2vec(nlp):
    encode = {
        "@architectures": "spacy.MaxoutWindowEncoder.v2",
        "width": WIDTH,
        "depth": 2,
        "window_size": 1,
        "maxout_pieces": 2,
    }
    return nlp.add_pipe("tok2vec", config={"model": {"@architectures": "spacy.Tok2Vec.v2", "embed": EMBED, "encode": encode}})


def on_our_backbone(nlp, checkpoint):
    helpers.add_backbone(nlp, checkpoint)
    helpers.add_head(nlp, TEXTCAT)
    helpers.add_head(nlp, NER)


def on_the_encoder(nlp, checkpoint):
    helpers.add_backbone(nlp, checkpoint)
    helpers.add_encoder(nlp)
    helpers.add_head(nlp, TEXTCAT)
    helpers.add_head(nlp, NER)


def on_stock_transformer(nlp, checkpoint):
    add_stock_transformer(nlp, checkpoint)
    helpers.add_head(nlp, TEXTCAT, STOCK_LISTENER)
    helpers.add_head(nlp, NER, STOCK_LISTENER)


def encoder_on_stock_transformer(nlp, checkpoint):
    """The order of the guide: backbone, direct heads, encoder, heads on the encoder."""
    add_stock_transformer(nlp, checkpoint)
    helpers.add_head(nlp, TEXTCAT, STOCK_LISTENER)
    helpers.add_encoder(nlp, STOCK_LISTENER)
    helpers.add_head(nlp, NER)


def on_stock_tok2vec(nlp, checkpoint):
    add_stock_tok2vec(nlp)
    helpers.add_head(nlp, TEXTCAT, TOK2VEC_LISTENER)
    helpers.add_head(nlp, NER, TOK2VEC_LISTENER)


def encoder_on_stock_tok2vec(nlp, checkpoint):
    add_stock_tok2vec(nlp)
    helpers.add_encoder(nlp, TOK2VEC_LISTENER)
    helpers.add_head(nlp, TEXTCAT)
    helpers.add_head(nlp, NER)


def our_backbone_beside_stock_tok2vec(nlp, checkpoint):
    """A stock tok2vec binds everything it can with upstream `*`: not our listeners."""
    helpers.add_backbone(nlp, checkpoint)
    add_stock_tok2vec(nlp)
    helpers.add_head(nlp, TEXTCAT)
    helpers.add_head(nlp, NER, TOK2VEC_LISTENER)


def encoder_inside_a_head(nlp, checkpoint):
    helpers.add_backbone(nlp, checkpoint)
    helpers.add_head(nlp, TEXTCAT)
    helpers.add_head(nlp, NER, helpers.encoder_block(helpers.LISTENER))


def from_scratch(nlp, checkpoint):
    """No backbone: a small transformer over hash embeddings, shared."""
    helpers.add_encoder(nlp, EMBED, positions="sinusoidal", depth=2)
    helpers.add_head(nlp, TEXTCAT)
    helpers.add_head(nlp, NER)


def from_scratch_inside_a_head(nlp, checkpoint):
    block = helpers.encoder_block(EMBED, norm="post")
    helpers.add_head(nlp, TEXTCAT, block)
    helpers.add_head(nlp, NER, EMBED)


SET_UPS = [
    on_our_backbone,
    on_the_encoder,
    on_stock_transformer,
    encoder_on_stock_transformer,
    on_stock_tok2vec,
    encoder_on_stock_tok2vec,
    our_backbone_beside_stock_tok2vec,
    encoder_inside_a_head,
    from_scratch,
    from_scratch_inside_a_head,
]


def all_weights(nlp):
    """Torch and Thinc weights, ours and stock."""
    found = helpers.weights_of(nlp)
    for name, pipe in nlp.pipeline:
        for i, node in enumerate(pipe.model.walk()):
            for param in node.param_names:
                if node.has_param(param):
                    found[f"{name}/{i}/{param}"] = node.get_param(param).copy()
            for shim in node.shims:
                if getattr(shim, "_model", None) is not None:
                    state = shim._model.state_dict()
                    found.update({f"{name}/{i}/{key}": x.detach().numpy().copy() for key, x in state.items()})
    return found


@pytest.mark.parametrize("set_up", SET_UPS)
def test_trains_saves_and_loads(tiny_checkpoint, tmp_path, set_up):
    nlp = spacy.blank("en")
    set_up(nlp, tiny_checkpoint)
    examples = helpers.make_examples(nlp)
    nlp.initialize(lambda: examples)
    before = all_weights(nlp)
    totals = helpers.train(nlp, examples, create_adamw(3e-3), 10)
    assert totals[-1] < 0.7 * totals[0], totals
    after = all_weights(nlp)
    moved = {key.split("/")[0] for key in before if not numpy.array_equal(before[key], after[key])}
    assert moved == set(nlp.pipe_names)
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    odd = ["", " ", "Ann"]
    for one, other in zip(loaded.pipe(TEXTS + odd), nlp.pipe(TEXTS + odd), strict=True):
        # The stock shim does not restore every bit of float32 addition order; ours is exact, see test_save_and_load.py.
        helpers.assert_same_outputs(one, other, atol=1e-5)
        assert set(one.cats) == set(helpers.LABELS)


@pytest.mark.parametrize("set_up", [on_stock_transformer, on_stock_tok2vec, from_scratch, from_scratch_inside_a_head])
@pytest.mark.parametrize("text", ["", " ", "Ann", "\n\n \t"])
def test_odd_documents_in_training(tiny_checkpoint, set_up, text):
    nlp = spacy.blank("en")
    set_up(nlp, tiny_checkpoint)
    nlp.initialize(lambda: helpers.make_examples(nlp))
    ordinary = helpers.make_examples(nlp)[:2]
    odd = Example.from_dict(nlp.make_doc(text), {"entities": [], "cats": {"thanks": 1.0}})
    for batch in ([ordinary[0], odd, ordinary[1]], [odd]):
        losses = helpers.accumulate(nlp, batch)
        assert all(numpy.isfinite(loss) for loss in losses.values())
    assert all(numpy.isfinite(value).all() for value in helpers.Recorder().finish(nlp).values())
    assert set(nlp(text).cats) == set(helpers.LABELS)


# Stock heads on our backbone

STOCK_HEADS = ["ner", "textcat", "tagger", "spancat"]


def add_stock_head(nlp, name, **listener):
    """`listener` changes settings of the stock listener."""
    model = nlp.get_factory_meta(name).default_config["model"]
    if name == "textcat":
        model = {
            "@architectures": "spacy.TextCatEnsemble.v2",
            "linear_model": {
                "@architectures": "spacy.TextCatBOW.v2",
                "exclusive_classes": True,
                "ngram_size": 1,
                "no_output_layer": False,
            },
        }
    return nlp.add_pipe(name, config={"model": {**model, "tok2vec": {**STOCK_LISTENER, **listener}}})


def stock_examples(nlp):
    examples = []
    for eg in helpers.make_examples(nlp):
        for token in eg.reference:
            token.tag_ = "UP" if token.text[0].isupper() else "LOW"
        eg.reference.spans["sc"] = list(eg.reference.ents)
        examples.append(eg)
    return examples


def stock_pipeline(checkpoint, heads, source=None):
    """With the weights of another pipeline, or with random ones where stock layers start at zero."""
    nlp = spacy.blank("en")
    helpers.add_backbone(nlp, checkpoint)
    for name in heads:
        if name in (TEXTCAT, NER):
            helpers.add_head(nlp, name)
        else:
            add_stock_head(nlp, name)
    examples = stock_examples(nlp)
    helpers.initialize(nlp, examples)
    rng = numpy.random.default_rng(0)
    for name in heads:
        model = nlp.get_pipe(name).model
        if source is not None:
            model.from_bytes(source.get_pipe(name).model.to_bytes())
            continue
        for node in model.walk():
            for param in node.param_names:
                if node.has_param(param) and not node.get_param(param).any():
                    node.set_param(param, rng.normal(size=node.get_param(param).shape).astype("float32") * 0.1)
    return nlp


@pytest.mark.parametrize(
    "heads", [STOCK_HEADS, ["tagger", TEXTCAT, "textcat", NER], [NER, "spancat"], ["spancat", NER]], ids=" ".join
)
def test_stock_heads_send_their_whole_gradient(tiny_checkpoint, heads):
    """In any order, and mixed with ours, which the stock backbone does not stand."""
    nlp = stock_pipeline(tiny_checkpoint, heads)
    examples = stock_examples(nlp)
    # The stock recognizer draws random numbers in its update.
    fix_random_seed(0)
    found = helpers.of_component(helpers.gradients_of(nlp, examples), BACKBONE)
    parts = []
    for name in heads:
        alone = stock_pipeline(tiny_checkpoint, [name], source=nlp)
        fix_random_seed(0)
        parts.append(helpers.of_component(helpers.gradients_of(alone, examples), BACKBONE))
        assert max(abs(value).max() for value in parts[-1].values()) > 1e-3, name
    helpers.assert_close(found, helpers.add_up(*parts), atol=1e-4)


def stock_outputs(nlp):
    """All that stock heads say of ordinary and odd texts."""
    return [
        (doc.to_json(), {key: [(span.start, span.end, span.label_) for span in group] for key, group in doc.spans.items()})
        for doc in nlp.pipe([*TEXTS, "", " "])
    ]


@pytest.mark.parametrize("name", [*STOCK_HEADS, "textcat_multilabel"])
def test_stock_head_on_our_backbone(tiny_checkpoint, tmp_path, name):
    nlp = spacy.blank("en")
    helpers.add_backbone(nlp, tiny_checkpoint)
    add_stock_head(nlp, name)
    examples = stock_examples(nlp)
    nlp.initialize(lambda: examples)
    before = helpers.weights_of(nlp)
    totals = helpers.train(nlp, examples, create_adamw(3e-3), 12)
    assert totals[-1] < 0.8 * totals[0], totals
    after = helpers.weights_of(nlp)
    still = [key for key in before if numpy.array_equal(before[key], after[key])]
    assert all("pooler" in key for key in still)
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    assert stock_outputs(loaded) == stock_outputs(nlp)


@pytest.mark.parametrize("text", ["", " "])
def test_stock_heads_and_documents_without_pieces(tiny_checkpoint, text):
    nlp = stock_pipeline(tiny_checkpoint, ["tagger", "textcat"])
    odd = Example.from_dict(nlp.make_doc(text), {"cats": {"thanks": 1.0}, "tags": ["LOW"] * len(nlp.make_doc(text))})
    batch = [stock_examples(nlp)[0], odd, stock_examples(nlp)[1]]
    assert all(numpy.isfinite(loss) for loss in helpers.accumulate(nlp, batch).values())
    helpers.Recorder().finish(nlp)
    assert [doc.text for doc in nlp.pipe([TEXTS[0], text])] == [TEXTS[0], text]
