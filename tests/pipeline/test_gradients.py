"""No gradient is lost: a joint pipeline gets the sum of what its heads give alone."""

from functools import cache
from itertools import permutations

import numpy
import pytest
import spacy
import torch
from spacy.training import Example
from thinc.api import Adam

from spacy_attention.training.optimizer import create_adamw

from .. import helpers
from ..helpers import BACKBONE, ENCODER, NER, TEXTCAT

ORDERS = [(BACKBONE, *order) for order in permutations([ENCODER, TEXTCAT, NER])]
# What a head that stands after the encoder listens to; before it there is only the backbone.
BINDINGS = [
    (order, dict(zip((TEXTCAT, NER), sources, strict=True)))
    for order in ORDERS
    for sources in [("nearest", "nearest"), (BACKBONE, "nearest"), ("nearest", BACKBONE), (BACKBONE, BACKBONE)]
    if not any(x == BACKBONE and order.index(h) < order.index(ENCODER) for h, x in zip((TEXTCAT, NER), sources, strict=True))
]


def sources_of(order, bindings):
    """By head: the shared components between it and the backbone."""
    found = {}
    for head in (TEXTCAT, NER):
        on_encoder = order.index(head) > order.index(ENCODER) and bindings[head] == "nearest"
        found[head] = (BACKBONE, ENCODER) if on_encoder else (BACKBONE,)
    return found


@pytest.fixture(scope="module")
def alone(tiny_checkpoint):
    """The gradients of a pipeline with one head, trained on its own: `alone(head, sources)`."""

    @cache
    def run(head, sources):
        nlp = helpers.build(tiny_checkpoint, [*sources, head])
        helpers.initialize(nlp)
        helpers.accumulate(nlp, helpers.make_examples(nlp))
        # From the head down, so that this reference does not rely on the order in which shared components send.
        gradients = helpers.Recorder().finish(nlp, order=[head, *reversed(sources)])
        assert {key.split("/")[0] for key, value in gradients.items() if value.any()} == {*sources, head}
        return gradients

    return run


@pytest.mark.parametrize(("order", "bindings"), BINDINGS)
def test_joint_gradient_is_the_sum_of_the_heads(tiny_checkpoint, alone, order, bindings):
    nlp = helpers.build(tiny_checkpoint, order, bindings)
    helpers.initialize(nlp)
    found = helpers.gradients_of(nlp, helpers.make_examples(nlp))
    expected = helpers.add_up(*(alone(head, sources) for head, sources in sources_of(order, bindings).items()))
    helpers.assert_close(found, expected)


@pytest.mark.parametrize("order", ORDERS)
def test_joint_gradient_when_components_finish_in_reverse(tiny_checkpoint, order):
    nlp = helpers.build(tiny_checkpoint, order)
    helpers.initialize(nlp)
    expected = helpers.gradients_of(nlp, helpers.make_examples(nlp))
    helpers.accumulate(nlp, helpers.make_examples(nlp))
    found = helpers.Recorder().finish(nlp, order=list(reversed(nlp.pipe_names)))
    helpers.assert_close(found, expected)


SKIPS = [(order, head, "exclude") for order in ORDERS for head in (TEXTCAT, NER)]
SKIPS += [(order, order[-1], "no gold") for order in ORDERS if order[-1] != ENCODER]
SKIPS += [(ORDERS[0], head, "frozen, annotating") for head in (TEXTCAT, NER)]


@pytest.mark.parametrize(("order", "skipping", "skip"), SKIPS)
def test_a_head_that_skips_its_update_takes_nothing_along(tiny_checkpoint, alone, order, skipping, skip):
    nlp = helpers.build(tiny_checkpoint, order)
    helpers.initialize(nlp)
    examples = helpers.make_examples(nlp)
    other = NER if skipping == TEXTCAT else TEXTCAT
    if skip == "no gold":
        examples = [without_gold(nlp, eg, skipping) for eg in examples]
        found = helpers.gradients_of(nlp, examples)
    elif skip == "exclude":
        found = helpers.gradients_of(nlp, examples, exclude=[skipping])
    else:
        helpers.accumulate(nlp, examples, exclude=[skipping], annotates=[BACKBONE, ENCODER, skipping])
        found = helpers.Recorder().finish(nlp, exclude=[skipping])
    expected = alone(other, sources_of(order, {TEXTCAT: "nearest", NER: "nearest"})[other])
    idle = {key: value for key, value in found.items() if key not in expected}
    assert all(abs(value).max() < 1e-5 for value in idle.values())
    helpers.assert_close({key: value for key, value in found.items() if key in expected}, expected)


def without_gold(nlp, example, head):
    gold = {"cats": example.reference.cats} if head == NER else {"entities": list(offsets(example))}
    return Example.from_dict(nlp.make_doc(example.reference.text), gold)


def offsets(example):
    return ((ent.start_char, ent.end_char, ent.label_) for ent in example.reference.ents)


def test_encoders_on_encoders(tiny_checkpoint):
    """Three shared components in a row, a head on each."""

    def make(heads):
        nlp = spacy.blank("en")
        helpers.add_backbone(nlp, tiny_checkpoint)
        helpers.add_encoder(nlp, name="first")
        helpers.add_encoder(nlp, name="second")
        for upstream in heads:
            helpers.add_head(nlp, NER, helpers.listen_to(upstream), name=f"on_{upstream}")
        helpers.initialize(nlp)
        return helpers.gradients_of(nlp, helpers.make_examples(nlp))

    together = make([BACKBONE, "second", "first"])
    helpers.assert_close(together, helpers.add_up(make([BACKBONE]), make(["first"]), make(["second"])))


@pytest.mark.parametrize("cuts", [[3], [1, 2, 5]])
@pytest.mark.parametrize("order", [(BACKBONE, ENCODER, TEXTCAT, NER), (BACKBONE, NER, ENCODER, TEXTCAT)])
def test_accumulated_parts_equal_one_batch(make_nlp, order, cuts):
    nlp = make_nlp(order)
    helpers.initialize(nlp)
    examples = helpers.make_examples(nlp)
    expected = helpers.gradients_of(nlp, examples)
    losses = []
    for start, end in zip([0, *cuts], [*cuts, None], strict=True):
        losses.append(helpers.accumulate(nlp, examples[start:end]))
    helpers.assert_close(helpers.Recorder().finish(nlp), expected)
    whole = helpers.accumulate(nlp, examples)
    for name in (TEXTCAT, NER):
        assert sum(part[name] for part in losses) == pytest.approx(whole[name], rel=1e-5)


def test_gradient_is_the_derivative_of_the_loss(trained):
    """One weight of each part, moved a little."""
    examples = helpers.make_examples(trained)
    gradients = helpers.gradients_of(trained, examples)
    for component, key in [
        (BACKBONE, "transformer.encoder.layer.0.output.dense.bias"),
        (ENCODER, "blocks.0.feed_forward.project_out.bias"),
        (TEXTCAT, "linear.bias"),
        (NER, "transitions"),
    ]:
        (shim,) = helpers.torch_shims(trained.get_pipe(component).model)
        parameter = shim.module.get_parameter(key)
        place = int(abs(gradients[f"{component}/{key}"]).argmax())
        losses = []
        for step in (0.01, -0.02):
            with torch.no_grad():
                parameter.view(-1)[place] += step
            losses.append(sum(helpers.accumulate(trained, examples).values()))
        with torch.no_grad():
            parameter.view(-1)[place] += 0.01
        slope = (losses[0] - losses[1]) / 0.02
        assert slope == pytest.approx(gradients[f"{component}/{key}"].reshape(-1)[place], rel=0.02), component


@pytest.mark.parametrize("make_optimizer", [create_adamw, Adam])
def test_every_weight_moves(make_nlp, make_optimizer):
    nlp = make_nlp([BACKBONE, ENCODER, TEXTCAT, NER])
    examples = helpers.make_examples(nlp)
    nlp.initialize(lambda: examples)
    before = helpers.weights_of(nlp)
    helpers.train(nlp, examples, make_optimizer(1e-3), 4)
    after = helpers.weights_of(nlp)
    still = [key for key in before if numpy.array_equal(before[key], after[key])]
    # The pooler of the checkpoint takes no part in token vectors.
    assert all("pooler" in key for key in still), still


@pytest.mark.parametrize("make_optimizer", [create_adamw, Adam])
def test_hand_written_loop_trains_shared_components(make_nlp, make_optimizer):
    """`nlp.update(sgd=optimizer)` finishes the backbone before a listener has sent anything: nothing may get lost there."""
    nlp = make_nlp([BACKBONE, ENCODER, TEXTCAT, NER])
    helpers.initialize(nlp)
    before = helpers.weights_of(nlp)
    optimizer = make_optimizer(1e-3)
    totals = [sum(nlp.update(helpers.fresh(nlp, helpers.make_examples(nlp)), sgd=optimizer).values()) for _ in range(8)]
    assert totals[-1] < 0.8 * totals[0]
    after = helpers.weights_of(nlp)
    still = [key for key in before if numpy.array_equal(before[key], after[key])]
    assert all("pooler" in key for key in still), still


@pytest.mark.parametrize("order", [(BACKBONE, ENCODER, TEXTCAT, NER), (BACKBONE, TEXTCAT, ENCODER, NER)])
def test_hand_written_loop_gives_each_gradient_once(make_nlp, order):
    nlp = make_nlp(order)
    helpers.initialize(nlp)
    examples = helpers.make_examples(nlp)
    expected = helpers.gradients_of(nlp, examples)
    seen: list[dict] = []

    class Log(helpers.Recorder):
        def collect_parameter(self, key, parameter):
            seen[-1][key.component, key.name] = parameter.grad.to_dense().detach().numpy().copy()
            parameter.grad = None

    for _ in range(3):
        seen.append({})
        nlp.update(helpers.fresh(nlp, examples), sgd=Log())
    shared = [{key: value for key, value in part.items() if key[0] != "head"} for part in seen]
    # The gradient of a call comes with the next one.
    assert shared[0] == {}
    wanted = {
        (component, key.split("/", 1)[1]): value
        for component, name in (("backbone", BACKBONE), ("encoder", ENCODER))
        for key, value in helpers.of_component(expected, name).items()
    }
    helpers.assert_close(shared[1], wanted)
    helpers.assert_close(shared[2], wanted)


def test_same_seed_same_start_and_same_update(make_nlp):
    def run(seed):
        nlp = make_nlp([BACKBONE, ENCODER, TEXTCAT, NER])
        examples = helpers.make_examples(nlp)
        spacy.util.fix_random_seed(seed)
        nlp.initialize(lambda: examples)
        start = helpers.weights_of(nlp)
        optimizer = create_adamw(1e-3)
        for _ in range(2):
            nlp.update(helpers.fresh(nlp, examples), sgd=False, drop=0.3)
            for _, pipe in nlp.pipeline:
                pipe.finish_update(optimizer)
            optimizer.step_schedules()
        return start, helpers.weights_of(nlp)

    first, again, other = run(1), run(1), run(2)
    for one, same in zip(first, again, strict=True):
        assert all(numpy.array_equal(one[key], same[key]) for key in one)
    assert any(not numpy.array_equal(first[0][key], other[0][key]) for key in first[0])


def test_dropout_of_the_training_config_reaches_encoder_and_heads(trained):
    examples = helpers.make_examples(trained)
    without = helpers.accumulate(trained, examples)
    helpers.Recorder().finish(trained)
    again = helpers.accumulate(trained, examples, drop=0.0)
    helpers.Recorder().finish(trained)
    dropped = helpers.accumulate(trained, examples, drop=0.5)
    assert without == again
    assert all(dropped[name] != pytest.approx(without[name], rel=1e-3) for name in (TEXTCAT, NER))
