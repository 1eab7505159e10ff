"""Training, stock against ours: spaCy's own loop, the same batches of SNIPS, the same weights, each with its own optimizer."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from peer_corpora import snips_files
from peer_pipelines import initialize, our_config, read_docs, stock_config
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.training.loop import train_while_improving
from spacy.util import minibatch
from thinc.api import Config

from spacy_attention.evaluation.timing import rate, speed_up, time_in_turns

BATCH_DOCS = 32
DROPOUT = 0.1
TITLES = {
    "stock": "stock, `transformer` + `ner` + `textcat`, Thinc's Adam",
    "ours-float32": "spacy-attention, float32, AdamW.v1",
    "ours-bfloat16": "spacy-attention, bfloat16, AdamW.v1",
}


def measure_training(checkpoint: str, *, rounds: int, batches: int) -> tuple[list[dict[str, Any]], int]:
    """Time the whole loop without its evaluations, in turns: so many batches of one side, so many of the next.

    checkpoint (str): folder of the weights.
    rounds (int): counted rounds.
    batches (int): updates per round and side.
    RETURNS (tuple): per side `name`, `title`, `docs_per_second`, `ratio`, `seconds`; and documents per round.
    """
    docs = read_docs(snips_files("train_*_full.json"))[: BATCH_DOCS * batches * (rounds + 1)]
    configs = {"stock": stock_config(checkpoint)}
    configs |= {f"ours-{precision}": our_config(checkpoint, precision) for precision in ("float32", "bfloat16")}
    runs = [training_run(config, docs, batches) for config in configs.values()]
    seconds = time_in_turns(runs, rounds=rounds, progress=True)
    per_round = BATCH_DOCS * batches
    rows = [
        {
            "name": name,
            "title": TITLES[name],
            "docs_per_second": rate(per_round, own),
            "ratio": speed_up(seconds[0], own),
            "seconds": own,
        }
        for name, own in zip(configs, seconds, strict=True)
    ]
    return rows, per_round


def training_run(config: Config, docs: list[Doc], batches: int) -> Callable[[], None]:
    """RETURNS (Callable): trains on the next so many batches. config (Config). docs (list[Doc]): gold. batches (int): per call."""
    nlp, optimizer = initialize(config, docs)
    steps = training_loop(nlp, optimizer, docs)

    def run() -> None:
        for _ in range(batches):
            next(steps)

    return run


def training_loop(nlp: Language, optimizer: Any, docs: list[Doc], *, accumulate: int = 1) -> Iterator[Any]:
    """Go round and round through the documents as `spacy train` does, without evaluations.

    nlp (Language), optimizer (Optimizer): made.
    docs (list[Doc]): gold, in the order of the batches.
    accumulate (int): parts of a batch that go through one after the other.
    RETURNS (Iterator): one item per step.
    """
    examples = [Example(nlp.make_doc(doc.text), doc) for doc in docs]
    batches = [(0, list(batch)) for batch in minibatch(examples, BATCH_DOCS)]
    return train_while_improving(
        nlp,
        optimizer,
        itertools.cycle(batches),
        dropout=DROPOUT,
        evaluate=lambda: (0.0, {}),
        accumulate_gradient=accumulate,
        patience=0,
        max_steps=0,
        # Only after the very first step, which is not counted.
        eval_frequency=1_000_000_000,
        exclude=[],
        annotating_components=[],
        before_update=None,
    )
