"""A frozen encoder is disabled while spaCy initializes the pipeline; its heads must stay with it."""

from spacy_attention.layers.listener import get_link

from ..helpers import BACKBONE, ENCODER, NER, TEXTCAT, make_examples


def upstream_names(nlp, head):
    links = [get_link(node) for node in nlp.get_pipe(head).model.walk()]
    return [link.upstream.name for link in links if link is not None]


def test_heads_stay_with_an_encoder_that_is_disabled(trained):
    with trained.select_pipes(disable=[ENCODER]):
        trained.initialize(lambda: make_examples(trained))
        assert upstream_names(trained, NER) == upstream_names(trained, TEXTCAT) == [ENCODER]
    assert trained.get_pipe(ENCODER).listening_components == [TEXTCAT, NER]


def test_frozen_encoder_is_the_source_of_what_heads_learn_from(trained):
    with trained.select_pipes(disable=[ENCODER]):
        trained.initialize(lambda: make_examples(trained))
    encoder = trained.get_pipe(ENCODER)
    before = [p.clone() for p in encoder.model.layers[2].shims[0].module.parameters()]
    asked = []
    read, encoder.read_vectors = encoder.read_vectors, lambda docs, **kw: asked.append(len(docs)) or read(docs, **kw)
    examples = make_examples(trained)
    trained.update(examples, exclude=[ENCODER, BACKBONE], annotates=[BACKBONE, ENCODER])
    assert asked == [len(examples), len(examples)]
    assert all((a == b).all() for a, b in zip(before, encoder.model.layers[2].shims[0].module.parameters(), strict=True))
