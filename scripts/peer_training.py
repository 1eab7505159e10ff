"""One training step, stock against ours: the same SNIPS texts, the same weights, each with its own optimizer."""

from collections.abc import Callable
from typing import Any

from peer_corpora import snips_files
from peer_pipelines import endless_batches, initialize, our_config, read_docs, stock_config, train_step
from spacy.tokens import Doc
from thinc.api import Config

from spacy_attention.evaluation.timing import rate, speed_up, time_in_turns

BATCH_DOCS = 32
TITLES = {
    "stock": "stock, `transformer` + `ner` + `textcat`, Thinc's Adam",
    "ours-float32": "spacy-attention, float32, AdamW.v1",
    "ours-bfloat16": "spacy-attention, bfloat16, AdamW.v1",
}


def measure_training(checkpoint: str, *, rounds: int, batches: int) -> tuple[list[dict[str, Any]], int]:
    """Time updates in turns: forward, backward, and the optimizer's step.

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
    stream = endless_batches(nlp, docs, BATCH_DOCS)

    def run() -> None:
        for _ in range(batches):
            train_step(nlp, next(stream), optimizer, frozen=[])

    return run
