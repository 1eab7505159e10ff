"""Time what settings of a training cost or save: in turns within one run, on the same helpdesk messages and from the same weights.

    python scripts/benchmark_settings.py                                        all settings (five minutes on 2 cores)
    python scripts/benchmark_settings.py --docs 64 --rounds 1 --output metrics  try it

Writes performance-settings.json; `python scripts/results.py` makes docs/performance.md of those in docs/results/.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from peer_pipelines import TRAIN, initialize, our_config, read_docs
from peer_training import BATCH_DOCS, training_loop
from spacy.tokens import Doc
from stamp import make_stamp
from tqdm import tqdm
from transformers import AutoConfig
from wasabi import table

from spacy_attention.checkpoints import DEFAULT_CHECKPOINT, find_checkpoint
from spacy_attention.evaluation.device import limit_threads
from spacy_attention.evaluation.report import write_json
from spacy_attention.evaluation.timing import rate, speed_up, time_in_turns

COLUMNS = ["", "Documents/s", "95 %", "Ratio", "95 %", "Peak RSS, MB"]


class Side(NamedTuple):
    """Settings to compare.

    title (str): in the table.
    model (dict[str, Any]): arguments of the backbone.
    precision (str): of all components.
    accumulate (int): parts of a batch.
    """

    title: str
    model: dict[str, Any]
    precision: str = "auto"
    accumulate: int = 1


def sides(layers: int, folder: Path) -> dict[str, Side]:
    """RETURNS (dict): the settings by name, all others against the first. layers (int): of the checkpoint. folder (Path): for a cache."""
    cache = {"megabytes": 2048}
    return {
        "full": Side("all layers learn", {}),
        "float32": Side("the same in float32", {}, precision="float32"),
        "checkpointing": Side("gradient checkpointing", {"gradient_checkpointing": True}),
        "accumulate": Side("`accumulate_gradient = 4`", {}, accumulate=4),
        "lora": Side("LoRA of rank 16 on all linear layers", {"lora": {"rank": 16, "alpha": 32, "targets": "all-linear"}}),
        "half": Side("the lower half of the layers frozen", {"frozen_layers": layers // 2}),
        "frozen": Side("all layers frozen", {"frozen_layers": layers}),
        "cached": Side("all frozen, cached in memory, after the first epoch", {"frozen_layers": layers, "cache": cache}),
        "cached-file": Side(
            "all frozen, cached in a file, after the first epoch",
            {"frozen_layers": layers, "cache": {**cache, "folder": str(folder)}},
        ),
    }


def main() -> None:
    """Measure and write, or be the process whose memory is measured."""
    args = _parse_args()
    with limit_threads(args.threads), tempfile.TemporaryDirectory(prefix="spacy-attention-") as folder:
        checkpoint = args.checkpoint or find_checkpoint(DEFAULT_CHECKPOINT)
        docs = read_docs([TRAIN])[: args.docs]
        known = sides(AutoConfig.from_pretrained(checkpoint).num_hidden_layers, Path(folder))
        measured = {name: known[name] for name in args.only or known}
        if args.peak:
            training_run(measured[args.peak], docs, checkpoint)()
            print(peak_mb())
            return
        seconds = time_in_turns(
            [training_run(side, docs, checkpoint) for side in measured.values()], rounds=args.rounds, progress=True
        )
        peaks = [measure_peak(name, args) for name in tqdm(measured, unit="setting", desc="Memory")]
        write(list(measured.values()), seconds, peaks, docs, args)


def training_run(side: Side, docs: list[Doc], checkpoint: str) -> Callable[[], None]:
    """RETURNS (Callable): trains once over all documents. side (Side), docs (list[Doc]): what is measured. checkpoint (str): folder."""
    config = our_config(checkpoint, side.precision)
    config["components"]["attention_backbone"]["model"].update(side.model)
    nlp, optimizer = initialize(config, docs)
    steps: Iterator[Any] = training_loop(nlp, optimizer, docs, accumulate=side.accumulate)

    def run() -> None:
        for _ in range(-(-len(docs) // BATCH_DOCS)):
            next(steps)

    return run


def measure_peak(name: str, args: argparse.Namespace) -> float:
    """RETURNS (float): MB of a process of its own that trains once over all documents. name (str): of the setting. args: command line."""
    command = [sys.executable, __file__, "--peak", name, "--docs", str(args.docs)]
    command += ["--threads", str(args.threads)] if args.threads else []
    command += ["--checkpoint", args.checkpoint] if args.checkpoint else []
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def peak_mb() -> float:
    """RETURNS (float): largest resident memory of this process, MB. Not from `getrusage`, whose maximum is inherited."""
    lines = Path("/proc/self/status").read_text("utf8").splitlines()
    return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("VmHWM"))


def write(
    measured: list[Side], seconds: list[list[float]], peaks: list[float], docs: list[Doc], args: argparse.Namespace
) -> None:
    """Write and print the table.

    measured (list[Side]), seconds (list[list[float]]), peaks (list[float]): settings, and what each took.
    docs (list[Doc]): of a round.
    args (Namespace): the command line.
    """
    rows = []
    for side, own, peak in zip(measured, seconds, peaks, strict=True):
        speed, ratio = rate(len(docs), own), speed_up(seconds[0], own)
        cells = [f"{each[key]:{form}}" for each, form in ((speed, ".0f"), (ratio, ".2f")) for key in ("value", "low", "high")]
        rows.append([side.title, cells[0], f"{cells[1]} to {cells[2]}", cells[3], f"{cells[4]} to {cells[5]}", f"{peak:,.0f}"])
    command = f"python scripts/benchmark_settings.py --docs {args.docs} --rounds {args.rounds}" + (
        f" --threads {args.threads}" if args.threads else ""
    )
    result = {
        "title": "Training settings, helpdesk",
        "columns": COLUMNS,
        "rows": rows,
        "notes": (
            f"The whole loop of `spacy train` without evaluations, batches of {BATCH_DOCS} of {len(docs)} messages with "
            f"{sum(map(len, docs)):,} words; {args.rounds} rounds of one epoch each, after one that does not count. "
            "Ratio: to the first row, round by round. Peak RSS of a process of its own, start and one epoch included."
        ),
        "sides": {
            side.title: {"seconds": own, "peak_rss_mb": peak} for side, own, peak in zip(measured, seconds, peaks, strict=True)
        },
        **make_stamp(command),
    }
    write_json(args.output / "performance-settings.json", result)
    print(f"\n{result['title']}\n{result['notes']}")
    print(table(rows, header=COLUMNS, aligns=["l"] + ["r"] * (len(COLUMNS) - 1), divider=True, max_col=60))


def _parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", type=int, default=640, help="messages of a round")
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds; one before them is not")
    parser.add_argument("--only", nargs="+", help="only these settings; the first is the measure of the others")
    parser.add_argument("--threads", type=int, help="CPU threads; default: as torch finds them")
    parser.add_argument("--checkpoint", help="folder of the weights; default: MiniLM")
    parser.add_argument("--output", type=Path, default=Path("docs/results"), help="folder of the JSON file")
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
