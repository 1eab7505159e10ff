"""Time spacy-transformers, this project and plain torch on the same weights and texts, in turns within one run.

    python scripts/benchmark_peers.py --corpus mixed             one corpus; without it all three
    python scripts/benchmark_peers.py --train                    training, spaCy's loop
    python scripts/benchmark_peers.py --corpus helpdesk --limit 8 --rounds 1 --steps 1 --output metrics/peers     try it
    python scripts/benchmark_peers.py --shape roberta-base --gpu-id 0 --output metrics/peers     random weights, on a GPU

Writes performance-CORPUS.json and performance-training.json; `python scripts/results.py` makes docs/performance.md of those in
docs/results/. Needs the folder of SPACY_ATTENTION_DATA for all but `--corpus helpdesk`.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import spacy
from peer_corpora import CORPORA, read_corpus
from peer_pipelines import SHAPES, build_pipelines, random_checkpoint
from peer_raw import raw_run
from peer_training import measure_training
from spacy.language import Language
from stamp import make_stamp
from tqdm import tqdm
from wasabi import table

from spacy_attention.checkpoints import DEFAULT_CHECKPOINT, find_checkpoint
from spacy_attention.evaluation.benchmark import count_words, pipe_run, speed_rows
from spacy_attention.evaluation.device import check_gpu, limit_threads
from spacy_attention.evaluation.footprint import measure_footprint
from spacy_attention.evaluation.predict import load_pipeline
from spacy_attention.evaluation.report import write_json
from spacy_attention.evaluation.timing import Interval, speed_up, time_in_turns

# In the order of the table; those whose name starts with `raw` are no pipelines. The last word but for `-stock-heads` is the precision.
SIDES = {
    "stock": "stock `transformer` + `ner` + `textcat`, float32",
    "ours-float32": "`attention_backbone` + our heads, float32",
    "ours-bfloat16": "`attention_backbone` + our heads, bfloat16",
    "ours-bfloat16-stock-heads": "`attention_backbone` + stock heads, bfloat16",
    "backbone-float32": "`attention_backbone` alone, float32",
    "backbone-bfloat16": "`attention_backbone` alone, bfloat16",
    "raw-float32": "plain torch, float32",
    "raw-bfloat16": "plain torch, bfloat16",
}
COLUMNS = ["Words/s", "95 %", "Ratio", "95 %", "Of plain torch, %", "Peak RSS, MB", "Load, s", "Disk, MB"]
TRAIN_COLUMNS = ["Documents/s", "95 %", "Ratio", "95 %"]
NOTES = (
    "{texts} texts, {words:,} words (spaCy tokens), median of {rounds} rounds. Ratio: to the first row, round by round. Plain torch: "
    "forward only, windows of 256 pieces without overlap, sorted by length, batches of 2,048 pieces, tokenized before the clock "
    "starts; the percentage is by the same number format. Entities per 100 words that the pipelines find: {density}."
)


def main() -> None:
    """Build the pipelines, and measure what the command line asks for."""
    args = _parse_args()
    check_gpu(args.gpu_id)
    with limit_threads(args.threads):
        if args.gpu_id >= 0:
            spacy.require_gpu(args.gpu_id)
        checkpoint = args.checkpoint or find_checkpoint(DEFAULT_CHECKPOINT)
        if args.shape:
            checkpoint = random_checkpoint(checkpoint, args.pipelines / args.shape, args.shape)
        corpora = args.corpus or ([] if args.train else list(CORPORA))
        if corpora and not args.reuse:
            build_pipelines(args.pipelines, checkpoint, steps=args.steps)
        for corpus in corpora:
            save(args, f"performance-{corpus}", inference_result(args, corpus, checkpoint))
        if args.train:
            save(args, "performance-training", training_result(args, checkpoint))


def inference_result(args: argparse.Namespace, corpus: str, checkpoint: str) -> dict[str, Any]:
    """Measure all sides on one corpus.

    args (argparse.Namespace): the command line.
    corpus (str): a key of `CORPORA`.
    checkpoint (str): folder of the weights.
    RETURNS (dict[str, Any]): `title`, `columns`, `rows`, `notes`, and the figures unrounded.
    """
    texts = read_corpus(corpus, limit=args.limit)
    words = count_words(spacy.blank("en"), texts)
    names = [name for name in SIDES if name in (args.only or SIDES)]
    loaded = {name: load_pipeline(str(args.pipelines / name)) for name in names if not name.startswith("raw")}
    seconds = time_in_turns([make_run(name, loaded, texts, checkpoint) for name in names], rounds=args.rounds, progress=True)
    sides = {name: {"title": SIDES[name], **row} for name, row in zip(names, speed_rows(seconds, words), strict=True)}
    for name in names:
        limit = f"raw-{precision_of(name)}"
        if limit in sides:
            sides[name]["of_limit"] = speed_up(sides[limit]["seconds"], sides[name]["seconds"])
    density = {name: entities_per_100_words(nlp, texts) for name, nlp in loaded.items() if len(nlp.pipe_names) > 1}
    for name in tqdm(loaded if not args.speed_only else (), unit="pipeline", desc="Memory"):
        sides[name].update(measure_footprint(str(args.pipelines / name), texts, gpu_id=args.gpu_id))
    found = ", ".join(f"{value:.1f}" for value in density.values())
    return {
        "title": f"Inference, {corpus.replace('_', ' ')}",
        "columns": ["", *COLUMNS],
        "rows": [make_row(side) for side in sides.values()],
        "notes": NOTES.format(texts=len(texts), words=words, rounds=args.rounds, density=found or "not counted"),
        "data": {"corpus": corpus, "texts": len(texts), "words": words, "entities_per_100_words": density},
        "sides": sides,
    }


def make_run(name: str, loaded: dict[str, Language], texts: list[str], checkpoint: str) -> Callable[[], None]:
    """RETURNS (Callable): what is timed for a side. name (str). loaded (dict): the pipelines. texts, checkpoint: see `raw_run`."""
    return pipe_run(loaded[name], texts) if name in loaded else raw_run(checkpoint, texts, precision_of(name))


def precision_of(name: str) -> str:
    """RETURNS (str): `float32` or `bfloat16`. name (str): a key of `SIDES`."""
    return "bfloat16" if "bfloat16" in name else "float32"


def entities_per_100_words(nlp: Language, texts: list[str], *, sample: int = 50) -> float:
    """RETURNS (float): that the pipeline finds, to see that it predicts as in real use. nlp, texts: any. sample (int): texts read."""
    docs = list(nlp.pipe(texts[:sample]))
    return 100 * sum(len(doc.ents) for doc in docs) / max(1, sum(map(len, docs)))


def training_result(args: argparse.Namespace, checkpoint: str) -> dict[str, Any]:
    """RETURNS (dict[str, Any]): as `inference_result`, of training. args (Namespace). checkpoint (str): folder."""
    rows, docs = measure_training(checkpoint, rounds=args.rounds, batches=args.train_batches)
    return {
        "title": "Training, SNIPS",
        "columns": ["", *TRAIN_COLUMNS],
        "rows": [[row["title"], *_cells(row["docs_per_second"], ".1f"), *_cells(row["ratio"], ".2f")] for row in rows],
        "notes": f"The whole loop of `spacy train` without evaluations, batches of 32; {docs} documents per round, {args.rounds} rounds.",
        "sides": {row["name"]: row for row in rows},
    }


def make_row(side: dict[str, Any]) -> list[str]:
    """RETURNS (list[str]): cells of the table. side (dict): figures of one side."""
    share = f"{100 * side['of_limit']['value']:.0f}" if "of_limit" in side else ""
    footprint = [f"{side[key]:{form}}" if side.get(key) is not None else "" for key, form in _FOOTPRINT.items()]
    return [side["title"], *_cells(side["words_per_second"], ",.0f"), *_cells(side["ratio"], ".2f"), share, *footprint]


_FOOTPRINT = {"peak_rss_mb": ",.0f", "load_seconds": ".1f", "size_mb": ",.0f"}


def _cells(interval: Interval, form: str) -> list[str]:
    return [f"{interval['value']:{form}}", f"{interval['low']:{form}} to {interval['high']:{form}}"]


def save(args: argparse.Namespace, name: str, result: dict[str, Any]) -> None:
    """Write a result with what one needs to make it again, and print its table.

    args (argparse.Namespace): the command line.
    name (str): of the file.
    result (dict[str, Any]): from `inference_result` or `training_result`.
    """
    stamp = make_stamp(command_line(args, result.get("data", {}).get("corpus")), gpu_id=args.gpu_id)
    write_json(args.output / f"{name}.json", {**result, **stamp})
    print(f"\n{result['title']}\n{result['notes']}")
    aligns = ["l"] + ["r"] * (len(result["columns"]) - 1)
    print(table(result["rows"], header=result["columns"], aligns=aligns, divider=True, max_col=60))


def command_line(args: argparse.Namespace, corpus: str | None) -> str:
    """RETURNS (str): what makes this one result again; folders are left out. args (Namespace). corpus (str | None): None for training."""
    parts = ["python scripts/benchmark_peers.py"]
    parts += [f"--corpus {corpus}"] if corpus else []
    parts += [f"--rounds {args.rounds}"]
    optional = {"limit": args.limit, "threads": args.threads, "shape": args.shape}
    parts += [f"--{name} {value}" for name, value in optional.items() if value]
    parts += [f"--gpu-id {args.gpu_id}"] if args.gpu_id >= 0 else []
    parts += [f"--train --train-batches {args.train_batches}"] if corpus is None else []
    return " ".join(parts)


def _parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", action="append", choices=CORPORA, help="may be repeated; default: all")
    parser.add_argument("--train", action="store_true", help="time training on SNIPS; no corpus unless named")
    parser.add_argument("--only", nargs="+", choices=SIDES, help="only these sides")
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds; one before them is not")
    parser.add_argument("--limit", type=int, default=0, help="texts per corpus; default: all, 60 movie reviews")
    parser.add_argument("--threads", type=int, help="CPU threads; default: as torch finds them")
    parser.add_argument("--gpu-id", type=int, default=-1, help="-1 for the CPU")
    parser.add_argument("--steps", type=int, default=60, help="updates of the heads before they are timed")
    parser.add_argument("--train-batches", type=int, default=4, help="batches of 32 per round of --train")
    parser.add_argument("--speed-only", action="store_true", help="leave out memory, load time and size")
    parser.add_argument("--output", type=Path, default=Path("docs/results"), help="folder of the JSON files")
    parser.add_argument("--pipelines", type=Path, default=Path("training/peers"), help="folder of the pipelines that are built")
    parser.add_argument("--reuse", action="store_true", help="take the pipelines that an earlier run left there")
    parser.add_argument("--checkpoint", help="folder of the weights; default: MiniLM")
    parser.add_argument("--shape", choices=SHAPES, help="random weights of this size instead")
    return parser.parse_args()


if __name__ == "__main__":
    main()
