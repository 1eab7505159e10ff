"""What a config of a stock transformer brings along: accepted where it means the same here, refused by name elsewhere."""

import pytest
import spacy
from spacy_transformers.span_getters import configure_get_doc_spans, configure_get_sent_spans, configure_strided_spans

from spacy_attention.models.stock_arguments import check_grad_scaler, check_span_getter, choose_precision, tokenizer_settings

from .. import helpers
from ..helpers import BACKBONE

STRIDED = {"@span_getters": "spacy-transformers.strided_spans.v1", "window": 128, "stride": 96}
SENTENCES = {"@span_getters": "spacy-transformers.sent_spans.v1"}


def my_spans(docs):
    return [[doc[:1]] for doc in docs]


class MySpans:
    def __call__(self, docs):
        return my_spans(docs)


def test_span_getters_that_only_cut():
    for getter in (None, configure_strided_spans(128, 96), configure_get_doc_spans()):
        check_span_getter(getter)


@pytest.mark.parametrize(
    ("getter", "name"), [(configure_get_sent_spans(), "get_sent_spans"), (my_spans, "my_spans"), (MySpans(), "MySpans")]
)
def test_span_getters_that_choose_what_is_read_together(getter, name):
    with pytest.raises(ValueError, match=rf"E112.*\.{name}'.*strided_spans.*model.get_spans"):
        check_span_getter(getter)


@pytest.mark.parametrize("settings", [None, {}, {"enabled": False}, {"enabled": False, "init_scale": 32}])
def test_no_loss_scaling(settings):
    check_grad_scaler(settings)


@pytest.mark.parametrize("settings", [{"init_scale": 32}, {"enabled": True}])
def test_loss_scaling_is_refused(settings):
    with pytest.raises(ValueError, match=r"E113.*(init_scale|enabled).*no loss scaling.*Remove"):
        check_grad_scaler(settings)


@pytest.mark.parametrize(
    ("precision", "mixed", "expected"),
    [
        ("auto", False, "auto"),
        ("auto", True, "bfloat16"),
        ("float32", True, "float32"),
        ("bfloat16", False, "bfloat16"),
    ],
)
def test_mixed_precision(tiny_checkpoint, precision, mixed, expected):
    assert choose_precision(precision, mixed) == expected
    nlp = spacy.blank("en")
    backbone = helpers.add_backbone(nlp, tiny_checkpoint, precision=precision, mixed_precision=mixed)
    assert backbone.model.shims[0].precision == expected


def test_tokenizer_settings():
    given = {"use_fast": True, "model_max_length": 64}
    assert tokenizer_settings(given) == {"model_max_length": 64}
    assert given["use_fast"], "the config is left as it is"
    with pytest.raises(ValueError, match=r"E106.*'tokenizer_config'.*use_fast"):
        tokenizer_settings({"use_fast": False})


def test_stock_arguments_in_a_config(tiny_checkpoint):
    nlp = spacy.blank("en")
    stock = {"get_spans": STRIDED, "tokenizer_config": {"use_fast": True}, "mixed_precision": False, "grad_scaler_config": {}}
    helpers.add_backbone(nlp, tiny_checkpoint, **stock)
    nlp.initialize()
    assert nlp.get_pipe_config(BACKBONE)["model"]["get_spans"] == STRIDED
    without = spacy.blank("en")
    helpers.add_backbone(without, tiny_checkpoint)
    without.initialize()
    found, expected = nlp("Ann Lee")._.trf_data, without("Ann Lee")._.trf_data
    assert (found.model_output.last_hidden_state == expected.model_output.last_hidden_state).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"get_spans": SENTENCES}, "E112.*get_sent_spans"), ({"grad_scaler_config": {"init_scale": 32}}, "E113.*32")],
)
def test_refused_in_a_config(tiny_checkpoint, arguments, message):
    with pytest.raises(ValueError, match=message):
        helpers.add_backbone(spacy.blank("en"), tiny_checkpoint, **arguments)
