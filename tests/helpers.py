"""What many tests build: pipelines over a tiny checkpoint, examples, and readings of gradients and weights."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy
import spacy
import torch
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from thinc.api import Model, fix_random_seed

from spacy_attention.layers.shim import TorchShim
from spacy_attention.nn.packed_attention import Block

WIDTH = 32
BACKBONE = "attention_backbone"
ENCODER = "attention_encoder"
TEXTCAT = "attention_textcat"
NER = "attention_ner"
LISTENER: dict[str, Any] = {"@architectures": "spacy-attention.Listener.v1", "upstream": "nearest"}
STOCK_LISTENER = {
    "@architectures": "spacy-transformers.TransformerListener.v1",
    "grad_factor": 1.0,
    "pooling": {"@layers": "reduce_mean.v1"},
}
TOK2VEC_LISTENER = {"@architectures": "spacy.Tok2VecListener.v1", "width": WIDTH, "upstream": "*"}
EMBED = {
    "@architectures": "spacy.MultiHashEmbed.v2",
    "width": WIDTH,
    "attrs": ["NORM", "SHAPE"],
    "rows": [200, 100],
    "include_static_vectors": False,
}

# Texts, entities as (start, end, label) in characters, and the class.
SENTENCES: list[tuple[str, list[tuple[int, int, str]], str]] = [
    ("Ann Lee wants her money back", [(0, 7, "PERSON")], "refund"),
    ("My order 4711 never arrived", [(9, 13, "ORDER")], "delivery"),
    ("please ask Bob about order 17 today", [(11, 14, "PERSON"), (27, 29, "ORDER")], "delivery"),
    ("thanks a lot", [], "thanks"),
    ("Bob Stone paid twice for 99 and wants it back", [(0, 9, "PERSON"), (25, 27, "ORDER")], "refund"),
    ("many thanks to Ann", [(15, 18, "PERSON")], "thanks"),
]
LABELS = ["delivery", "refund", "thanks"]


def add_backbone(nlp: Language, checkpoint: Any, *, name: str = BACKBONE, **model: Any) -> Any:
    """Add a backbone over a checkpoint folder, in float32."""
    block = {"@architectures": "spacy-attention.TransformerBackbone.v1", "name": str(checkpoint)}
    return nlp.add_pipe(BACKBONE, name=name, config={"model": {**block, "precision": "float32", **model}})


def add_encoder(nlp: Language, tok2vec: dict | None = None, *, name: str = ENCODER, **model: Any) -> Any:
    """Add an encoder with one block and two heads, in float32 and without dropout."""
    return nlp.add_pipe(ENCODER, name=name, config={"model": encoder_block(tok2vec, **model)})


def encoder_block(tok2vec: dict | None = None, **model: Any) -> dict[str, Any]:
    block = {"@architectures": "spacy-attention.AttentionEncoder.v1", "depth": 1, "heads": 2, "dropout": 0.0}
    return {**block, "precision": "float32", **model, "tok2vec": tok2vec or LISTENER}


def add_head(
    nlp: Language,
    factory: str,
    tok2vec: dict | None = None,
    *,
    name: str | None = None,
    pooling: str | None = None,
    precision: str = "float32",
    **config: Any,
) -> Any:
    """Add one of our heads, in float32 unless told otherwise, and without dropout."""
    architecture = "TextCatHead" if factory == TEXTCAT else "NerHead"
    model: dict[str, Any] = {"@architectures": f"spacy-attention.{architecture}.v1", "dropout": 0.0, "precision": precision}
    model["tok2vec"] = tok2vec or LISTENER
    if pooling is not None:
        model["pooling"] = pooling
    return nlp.add_pipe(factory, name=name or factory, config={**config, "model": model})


def listen_to(upstream: str) -> dict[str, Any]:
    return {**LISTENER, "upstream": upstream}


def build(checkpoint: Any, pipeline: Iterable[str], upstreams: dict[str, str] | None = None) -> Language:
    """A blank pipeline of our components by factory name; `upstreams` binds a component to one other than the nearest."""
    nlp = spacy.blank("en")
    for name in pipeline:
        tok2vec = listen_to((upstreams or {}).get(name, "nearest"))
        if name == BACKBONE:
            add_backbone(nlp, checkpoint)
        elif name == ENCODER:
            add_encoder(nlp, tok2vec)
        else:
            add_head(nlp, name, tok2vec)
    return nlp


def make_examples(nlp: Language, sentences: Iterable = SENTENCES) -> list[Example]:
    """Examples with entities and all cats annotated."""
    return [
        Example.from_dict(nlp.make_doc(text), {"entities": ents, "cats": {label: float(label == cat) for label in LABELS}})
        for text, ents, cat in sentences
    ]


def initialize(nlp: Language, examples: list[Example] | None = None, *, seed: int = 0) -> Any:
    """Initialize with a seed, then shake all our output layers so that no gradient is zero. RETURNS the optimizer."""
    fix_random_seed(seed)
    given = examples if examples is not None else make_examples(nlp)
    optimizer = nlp.initialize(lambda: given)
    shake(nlp, seed=seed)
    return optimizer


def shake(nlp: Language, *, seed: int = 0) -> None:
    """Random values in every weight of encoders and heads of ours, by component name, so that pipelines compare."""
    for name, pipe in nlp.pipeline:
        generator = torch.Generator().manual_seed(seed + sum(map(ord, name)))
        for shim in torch_shims(getattr(pipe, "model", None)):
            if shim.component == "backbone" or not shim.ready:
                continue
            with torch.no_grad():
                for parameter in shim.module.parameters():
                    parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.1)


def torch_shims(model: Model | None) -> list[TorchShim]:
    if not isinstance(model, Model):
        return []
    return [shim for node in model.walk() for shim in node.shims if isinstance(shim, TorchShim)]


def accumulate(nlp: Language, examples: list[Example], **kwargs: Any) -> dict[str, float]:
    """Update all components without an optimizer, as `spacy train` does, on fresh copies of the predicted documents."""
    losses: dict[str, float] = {}
    nlp.update(fresh(nlp, examples), sgd=False, losses=losses, **kwargs)  # type: ignore[arg-type]
    return losses


def fresh(nlp: Language, examples: Iterable[Example]) -> list[Example]:
    return [Example(nlp.make_doc(eg.reference.text), eg.reference) for eg in examples]


class Recorder:
    """Stands in for an optimizer: `gradients` by component and weight name; changes nothing."""

    def __init__(self) -> None:
        self.gradients: dict[str, numpy.ndarray] = {}
        self._component = ""

    def collect_parameter(self, key: Any, parameter: Any) -> None:
        self.gradients[f"{self._component}/{key.name}"] = parameter.grad.to_dense().detach().numpy().copy()
        parameter.grad = None

    def step(self) -> None:
        """Nothing to apply."""

    def __call__(self, key: Any, weights: Any, gradient: Any, **kwargs: Any) -> Any:
        self.gradients[f"{self._component}/{key[1]}/{len(self.gradients)}"] = gradient.copy()
        gradient *= 0
        return weights, gradient

    def finish(
        self, nlp: Language, *, exclude: Iterable[str] = (), order: Iterable[str] | None = None
    ) -> dict[str, numpy.ndarray]:
        """Finish every component, in pipeline order unless another is given, and give what came."""
        for name in nlp.pipe_names if order is None else order:
            self._component = name
            pipe = nlp.get_pipe(name)
            if name not in exclude and hasattr(pipe, "finish_update"):
                pipe.finish_update(self)
        return self.gradients


def gradients_of(nlp: Language, examples: list[Example], **kwargs: Any) -> dict[str, numpy.ndarray]:
    """Gradient of every weight for one batch."""
    accumulate(nlp, examples, **kwargs)
    return Recorder().finish(nlp, exclude=kwargs.get("exclude", ()))


def of_component(gradients: dict[str, numpy.ndarray], name: str) -> dict[str, numpy.ndarray]:
    return {key: value for key, value in gradients.items() if key.startswith(name + "/")}


def weights_of(nlp: Language) -> dict[str, numpy.ndarray]:
    """Copies of all our torch weights, by component and weight name."""
    return {
        f"{name}/{i}/{key}": value.detach().numpy().copy()
        for name, pipe in nlp.pipeline
        for i, shim in enumerate(torch_shims(getattr(pipe, "model", None)))
        if shim.ready
        for key, value in shim.module.state_dict().items()
    }


def assert_close(found: dict[str, Any], expected: dict[str, Any], *, atol: float = 1e-5) -> None:
    """Same keys; same values, to `atol` times the largest of the array where that is above 1; and not all zero."""
    assert found.keys() == expected.keys()
    assert any(abs(value).max() > 1e-3 for value in expected.values())
    for key, value in expected.items():
        scale = max(1.0, float(abs(value).max()))
        numpy.testing.assert_allclose(found[key] / scale, value / scale, atol=atol, rtol=0, err_msg=key)


def add_up(*parts: dict[str, numpy.ndarray]) -> dict[str, numpy.ndarray]:
    """The sum of several readings of `gradients_of`."""
    total: dict[str, numpy.ndarray] = {}
    for part in parts:
        for key, value in part.items():
            total[key] = total[key] + value if key in total else value
    return total


def train(nlp: Language, examples: list[Example], optimizer: Any, steps: int, *, exclude=(), annotates=()) -> list[float]:
    """As `spacy train`: update all, then finish all. RETURNS the total loss of each step."""
    totals = []
    for _ in range(steps):
        losses: dict[str, float] = {}
        nlp.update(fresh(nlp, examples), sgd=False, losses=losses, exclude=exclude, annotates=annotates)  # type: ignore[arg-type]
        for name, pipe in nlp.pipeline:
            if name not in exclude and hasattr(pipe, "finish_update"):
                pipe.finish_update(optimizer)
        optimizer.step_schedules()
        totals.append(sum(losses.values()))
    return totals


def outputs(doc: Doc) -> dict[str, Any]:
    """All that our heads say of a document."""
    ents = [(ent.start, ent.end, ent.label_, ent._.confidence) for ent in doc.ents]
    return {"cats": dict(doc.cats), "ents": ents}


def assert_same_outputs(found: Doc, expected: Doc, *, atol: float = 0.0) -> None:
    one, other = outputs(found), outputs(expected)
    assert one["cats"].keys() == other["cats"].keys()
    assert [ent[:3] for ent in one["ents"]] == [ent[:3] for ent in other["ents"]]
    for label in one["cats"]:
        assert abs(one["cats"][label] - other["cats"][label]) <= atol
    for a, b in zip(one["ents"], other["ents"], strict=True):
        assert abs(a[3] - b[3]) <= atol


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """Within this context the system lets no file of this process grow beyond so many bytes, as if the disk were full."""
    import resource  # not on Windows

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def whole_window(ids: Sequence[int]) -> tuple[Any, ...]:
    """What the transformer takes for one window of which every row is wanted."""
    columns = torch.arange(len(ids))
    return torch.tensor(ids), torch.ones_like(columns), columns, columns, columns, [Block(1, len(ids), padded=False)]


BuildPipeline = Callable[..., Language]
