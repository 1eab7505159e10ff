import numpy
import pytest
import spacy
import torch
from spacy.tokens import Doc
from transformers import AutoModel, AutoTokenizer

from spacy_attention.layers.loading import encoder_part
from spacy_attention.layers.pieces import special_ids

from .. import helpers
from ..checkpoint_families import FAMILIES

NOT_SQUARE = ["longformer"]
LONG = " ".join(text for text, _, _ in helpers.SENTENCES * 2)
TEXTS = ["Ann Lee wants her money back", "", "thanks", LONG]


def make_pipeline(folder, **settings):
    nlp = spacy.blank("en")
    helpers.add_backbone(nlp, folder, window=40, stride=30, **settings)
    nlp.initialize()
    return nlp


@pytest.mark.parametrize("family", [family for family in FAMILIES if family not in NOT_SQUARE])
def test_weights_of_every_window_equal_hugging_face(family, family_folder):
    folder = family_folder(family)
    docs = list(make_pipeline(folder, output_attentions=True).pipe(TEXTS))
    assert "attentions" not in docs[1]._.trf_data.model_output
    special = special_ids(AutoTokenizer.from_pretrained(folder))
    theirs = encoder_part(AutoModel.from_pretrained(folder, attn_implementation="eager").eval())
    for doc in (docs[0], docs[2], docs[3]):
        output = doc._.trf_data.model_output
        ids = doc._.trf_data.wordpieces.input_ids.reshape(-1).tolist()
        assert len(output.attentions) == len(output.windows) == doc._.backbone_report["windows"]
        assert output.windows[0, 0] == 0
        assert output.windows[-1, 1] == len(ids)
        for weights, (start, end) in zip(output.attentions, output.windows.tolist(), strict=True):
            inputs = torch.tensor([[*special.before, *ids[start:end], *special.after]])
            with torch.no_grad():
                expected = theirs(input_ids=inputs, attention_mask=torch.ones_like(inputs), output_attentions=True).attentions
            numpy.testing.assert_allclose(weights, torch.cat(expected).numpy(), atol=1e-5)
            numpy.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    assert len(docs[3]._.trf_data.model_output.windows) > 1


def test_vectors_stay_and_weights_are_stored(tiny_checkpoint):
    nlp = make_pipeline(tiny_checkpoint)
    (plain,) = nlp.pipe(TEXTS[:1])
    assert "attentions" not in plain._.trf_data.model_output
    nlp.get_pipe(helpers.BACKBONE).model.attrs["output_attentions"] = True
    doc = nlp(TEXTS[0])
    output, expected = doc._.trf_data.model_output, plain._.trf_data.model_output
    numpy.testing.assert_array_equal(output.last_hidden_state, expected.last_hidden_state)
    again = Doc(nlp.vocab).from_bytes(doc.to_bytes())._.trf_data.model_output
    numpy.testing.assert_array_equal(again["attentions"][0], output.attentions[0])
    numpy.testing.assert_array_equal(again["windows"], output.windows)


@pytest.mark.parametrize("family", NOT_SQUARE)
def test_model_without_such_weights_is_refused_by_name(family, family_folder):
    nlp = make_pipeline(family_folder(family), output_attentions=True)
    with pytest.raises(ValueError, match=rf"E119\].*type '{family}'.*output_attentions = false"):
        nlp(TEXTS[0])
