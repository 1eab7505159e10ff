"""Where the time of a training step goes: its parts on SNIPS, in float32 and in bfloat16, in turns within one run.

    python scripts/step_times.py                                      a minute on 2 cores
    python scripts/step_times.py --rounds 1 --steps 2 --output metrics     try it

Writes performance-step.json; `python scripts/results.py` makes docs/performance.md of those in docs/results/. Needs SPACY_ATTENTION_DATA.
"""

import argparse
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from peer_corpora import snips_files
from peer_pipelines import initialize, our_config, read_docs
from peer_training import BATCH_DOCS, training_loop
from spacy.language import Language
from spacy.tokens import Doc
from stamp import make_stamp
from wasabi import table

from spacy_attention.checkpoints import DEFAULT_CHECKPOINT, find_checkpoint
from spacy_attention.evaluation.device import limit_threads
from spacy_attention.evaluation.report import write_json
from spacy_attention.evaluation.timing import time_in_turns
from spacy_attention.layers import backbone
from spacy_attention.training import optimizer

FORMATS = ("float32", "bfloat16")
PARTS = {
    "pieces": "word pieces, and their layout in passes",
    "backbone-forward": "backbone, forward",
    "backbone-backward": "backbone, backward",
    "head-forward": "heads, forward",
    "head-backward": "heads, backward",
    "loss": "losses and their gradients, the tag chain's above all",
    "clip": "norm of all gradients",
    "step": "clip and AdamW",
    "rest": "all else: rows between components, Thinc, spaCy",
}


class Stopwatch:
    """Adds up seconds by part; those of a part within another count for the inner one only."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._running: list[str] = []
        self._since = 0.0

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Within this context the time is of a part. name (str): of it."""
        self._stop()
        self._running.append(name)
        try:
            yield
        finally:
            self._stop()
            self._running.pop()

    def wrap(self, name: str, function: Callable) -> Callable:
        """name (str): of a part. function (Callable): any. RETURNS (Callable): the same, timed."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.part(name):
                return function(*args, **kwargs)

        return timed

    def _stop(self) -> None:
        now = time.perf_counter()
        if self._running:
            self.seconds[self._running[-1]] += now - self._since
        self._since = now


def main() -> None:
    """Measure, write, print."""
    args = _parse_args()
    with limit_threads(args.threads):
        checkpoint = args.checkpoint or find_checkpoint(DEFAULT_CHECKPOINT)
        docs = read_docs(snips_files("train_*_full.json"))[: BATCH_DOCS * args.steps * (args.rounds + 1)]
        rounds: dict[str, list[Counter[str]]] = {precision: [] for precision in FORMATS}
        watch = Stopwatch()
        # The two functions are of modules, so both pipelines have the same.
        backbone.lay_out = watch.wrap("pieces", backbone.lay_out)
        optimizer.total_norm = watch.wrap("clip", optimizer.total_norm)
        runs = [timed_run(checkpoint, precision, docs, args.steps, watch, rounds[precision]) for precision in FORMATS]
        time_in_turns(runs, rounds=args.rounds, progress=True)
        write({precision: counted[1:] for precision, counted in rounds.items()}, args)


def timed_run(
    checkpoint: str, precision: str, docs: list[Doc], steps: int, watch: Stopwatch, counted: list[Counter[str]]
) -> Callable[[], None]:
    """Make a training of which every call is one round.

    checkpoint (str): folder. precision (str): of all components. docs (list[Doc]): gold. steps (int): of a round.
    watch (Stopwatch): for the parts. counted (list): gets the milliseconds per step of each round.
    RETURNS (Callable): trains for a round.
    """
    nlp, adamw = initialize(our_config(checkpoint, precision), docs)
    watch_parts(nlp, watch)
    adamw._torch.step = watch.wrap("step", adamw._torch.step)
    loop = training_loop(nlp, adamw, docs)

    def run() -> None:
        watch.seconds.clear()
        for _ in range(steps):
            with watch.part("rest"):
                next(loop)
        counted.append(Counter({name: 1000 * seconds / steps for name, seconds in watch.seconds.items()}))

    return run


def watch_parts(nlp: Language, watch: Stopwatch) -> None:
    """nlp (Language): whose components are timed from now on. watch (Stopwatch): for them."""
    for _, pipe in nlp.pipeline:
        for node in pipe.model.walk():
            for shim in node.shims:
                shim.begin_update = _watch_update(shim.begin_update, shim.component, watch)
        if hasattr(pipe, "loss_and_gradient"):
            pipe.loss_and_gradient = watch.wrap("loss", pipe.loss_and_gradient)


def _watch_update(begin_update: Callable, component: str, watch: Stopwatch) -> Callable:
    def timed(*args: Any, **kwargs: Any) -> Any:
        with watch.part(f"{component}-forward"):
            outputs, backprop = begin_update(*args, **kwargs)
        return outputs, watch.wrap(f"{component}-backward", backprop)

    return timed


def write(rounds: dict[str, list[Counter[str]]], args: argparse.Namespace) -> None:
    """Write and print the table. rounds (dict): milliseconds per step of each round, by number format. args (Namespace)."""
    medians = {p: {part: statistics.median(each[part] for each in counted) for part in PARTS} for p, counted in rounds.items()}
    totals = {precision: sum(parts.values()) for precision, parts in medians.items()}
    rows = [[title, *(cell for p in FORMATS for cell in _cells(medians[p][part], totals[p]))] for part, title in PARTS.items()]
    rows.append(["together", *(cell for p in FORMATS for cell in _cells(totals[p], totals[p]))])
    columns = ["", *(title for precision in FORMATS for title in (f"{precision}, ms", "%"))]
    command = f"python scripts/step_times.py --rounds {args.rounds} --steps {args.steps}" + (
        f" --threads {args.threads}" if args.threads else ""
    )
    result = {
        "title": "A training step, SNIPS",
        "columns": columns,
        "rows": rows,
        "notes": (
            f"One step of `spacy train` with the recommended recipe, a batch of {BATCH_DOCS}: median over {args.rounds} rounds of "
            f"{args.steps} steps. A part within another counts for itself only."
        ),
        "sides": {precision: [dict(each) for each in counted] for precision, counted in rounds.items()},
        **make_stamp(command),
    }
    write_json(args.output / "performance-step.json", result)
    print(table(rows, header=columns, aligns=["l"] + ["r"] * (len(columns) - 1), divider=True, max_col=60))


def _cells(milliseconds: float, total: float) -> tuple[str, str]:
    return f"{milliseconds:.1f}", f"{100 * milliseconds / total:.0f}"


def _parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="counted rounds; one before them is not")
    parser.add_argument("--steps", type=int, default=8, help="of a round")
    parser.add_argument("--threads", type=int, help="CPU threads; default: as torch finds them")
    parser.add_argument("--checkpoint", help="folder of the weights; default: MiniLM")
    parser.add_argument("--output", type=Path, default=Path("docs/results"), help="folder of the JSON file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
