"""What entities and their confidences cost: the share of a pipeline's time that is spent on reading them from tag scores.

    python scripts/decoding_times.py              a minute on 2 cores
    python scripts/decoding_times.py --rounds 1 --limit 50 --output metrics     try it

Writes performance-decoding.json; `python scripts/results.py` makes docs/performance.md of those in docs/results/. Needs
SPACY_ATTENTION_DATA.
"""

import argparse
import statistics
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from peer_corpora import CORPORA, read_corpus
from peer_pipelines import TRAIN, build, our_config, read_docs
from spacy.language import Language
from stamp import make_stamp
from step_times import FORMATS, Stopwatch
from wasabi import table

from spacy_attention.checkpoints import DEFAULT_CHECKPOINT, find_checkpoint
from spacy_attention.evaluation.device import limit_threads
from spacy_attention.evaluation.report import write_json
from spacy_attention.evaluation.timing import time_in_turns

BACKBONE, CLASSIFIER, RECOGNIZER = "attention_backbone", "attention_textcat", "attention_ner"
PARTS = {
    "rest": "backbone, tokenizer, all else",
    "classifier": "classifier",
    "scores": "scores of the tags",
    "decoding": "best tag sequence and probabilities of its entities",
    "writing": "entities and confidences into the document",
}
DECODING = ("decoding", "writing")


def main() -> None:
    """Measure, write, print."""
    args = _parse_args()
    with limit_threads(args.threads):
        checkpoint = args.checkpoint or find_checkpoint(DEFAULT_CHECKPOINT)
        texts = read_corpus(args.corpus, limit=args.limit)
        rounds: dict[str, list[Counter[str]]] = {precision: [] for precision in FORMATS}
        runs = []
        for precision in FORMATS:
            nlp = build(our_config(checkpoint, precision), read_docs([TRAIN]), shared=BACKBONE, steps=args.steps)
            runs.append(timed_run(nlp, texts, rounds[precision]))
        time_in_turns(runs, rounds=args.rounds, progress=True)
        write({precision: counted[1:] for precision, counted in rounds.items()}, args)


def timed_run(nlp: Language, texts: list[str], counted: list[Counter[str]]) -> Any:
    """Make a run over all texts of which every call is one round.

    nlp (Language): whose parts are timed from now on. texts (list[str]): of the corpus.
    counted (list): gets the milliseconds of each round.
    RETURNS (Callable): the run.
    """
    watch = Stopwatch()
    watch_parts(nlp, watch)

    def run() -> None:
        watch.seconds.clear()
        with watch.part("rest"):
            for _ in nlp.pipe(texts):
                # The work of a component is done when its batch is asked for, within this part.
                pass
        counted.append(Counter({name: 1000 * seconds for name, seconds in watch.seconds.items()}))

    return run


def watch_parts(nlp: Language, watch: Stopwatch) -> None:
    """nlp (Language): of our three components. watch (Stopwatch): gets their parts."""
    classifier, recognizer = nlp.get_pipe(CLASSIFIER), nlp.get_pipe(RECOGNIZER)
    for method in ("predict", "set_annotations"):
        setattr(classifier, method, watch.wrap("classifier", getattr(classifier, method)))
    recognizer.predict = watch.wrap("decoding", recognizer.predict)  # what is left of it without the scores
    # All that it asks of its model from here on; a Thinc model cannot be patched.
    recognizer.model = SimpleNamespace(predict=watch.wrap("scores", recognizer.model.predict))
    recognizer.set_annotations = watch.wrap("writing", recognizer.set_annotations)


def write(rounds: dict[str, list[Counter[str]]], args: argparse.Namespace) -> None:
    """Write and print the table. rounds (dict): milliseconds of each round, by number format. args (Namespace)."""
    rows = []
    for part, title in PARTS.items():
        rows.append([title, *(cell for p in FORMATS for cell in _cells(rounds[p], (part,)))])
    rows.append(["decoding with confidences, both together", *(cell for p in FORMATS for cell in _cells(rounds[p], DECODING))])
    columns = ["", *(title for precision in FORMATS for title in (f"{precision}, ms", "%"))]
    command = f"python scripts/decoding_times.py --rounds {args.rounds}" + (f" --threads {args.threads}" if args.threads else "")
    result = {
        "title": f"Decoding with confidences, {args.corpus}",
        "columns": columns,
        "rows": rows,
        "notes": f"All texts of the corpus once, medians over {args.rounds} rounds of the times and of the shares. Heads trained a little.",
        "sides": {precision: [dict(each) for each in counted] for precision, counted in rounds.items()},
        **make_stamp(command),
    }
    write_json(args.output / "performance-decoding.json", result)
    print(table(rows, header=columns, aligns=["l"] + ["r"] * (len(columns) - 1), divider=True, max_col=60))


def _cells(counted: list[Counter[str]], parts: tuple[str, ...]) -> tuple[str, str]:
    times = [sum(each[part] for part in parts) for each in counted]
    shares = [100 * time / sum(each.values()) for time, each in zip(times, counted, strict=True)]
    return f"{statistics.median(times):,.0f}", f"{statistics.median(shares):.1f}"


def _parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="counted rounds; one before them is not")
    parser.add_argument("--corpus", choices=list(CORPORA), default="mixed")
    parser.add_argument("--limit", type=int, default=0, help="the first so many texts; 0 for all")
    parser.add_argument("--steps", type=int, default=120, help="updates of the heads")
    parser.add_argument("--threads", type=int, help="CPU threads; default: as torch finds them")
    parser.add_argument("--checkpoint", help="folder of the weights; default: MiniLM")
    parser.add_argument("--output", type=Path, default=Path("docs/results"), help="folder of the JSON file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
