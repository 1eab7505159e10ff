"""Run trained pipelines in float32 and in bfloat16: how often they say the same, and how fast each is.

    python scripts/compare_precision.py --output docs/results/precision.json \\
        --row "Helpdesk, test=training/helpdesk/model-best,corpus/helpdesk/test.spacy" \\
        --row "SNIPS, test=training/snips-0/model-best,corpus/snips/test.spacy"
    python scripts/results.py

Each component with a `precision` setting gets the one and then the other; no weight changes. The two take turns, and the speed
of each is the median of its runs, tokenizing included.
"""

import argparse
import datetime
import shlex
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import spacy
import torch
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.training.iob_utils import doc_to_biluo_tags

from spacy_attention.evaluation.benchmark import pipe_run
from spacy_attention.evaluation.machine import describe_machine, machine_line
from spacy_attention.evaluation.predict import load_examples, load_pipeline, predict
from spacy_attention.evaluation.report import installed_versions, write_json
from spacy_attention.evaluation.timing import rate, time_in_turns
from spacy_attention.evaluation.utterance import is_exclusive, predicted_classes
from spacy_attention.layers.precision import has_native_bfloat16

FORMATS = ("float32", "bfloat16")
COLUMNS = [
    "",
    "Documents",
    "Words",
    "Token tags alike",
    "Entities alike",
    "Classes alike",
    "float32, words/s",
    "bfloat16, words/s",
]
NOTES = (
    "The same weights in both number formats. Token tags: BILUO with label. Entities: those found in both among those found in either. "
    "Classes: documents with the same class, or set of classes. Speed: median of {runs} runs that take turns, {threads} threads; "
    "bfloat16 is {native} by this machine's processor."
)


class Agreement(NamedTuple):
    """Shares in [0, 1] on which two predictions agree; None where nothing of the kind was predicted."""

    tags: float | None
    entities: float | None
    classes: float | None


def main() -> None:
    """Run what the command line asks for, write the table and print it."""
    args = _parse_args()
    rows = [make_row(name, *source.rsplit(",", 1), runs=args.runs) for name, source in (_split(row) for row in args.row)]
    result = make_result(rows, command=shlex.join(["python", "scripts/compare_precision.py", *sys.argv[1:]]), runs=args.runs)
    write_json(args.output, result)
    for row in (COLUMNS, *rows):
        print("".join(f"{cell:>20}" for cell in row))
    print(f"Wrote {args.output}; now run: python scripts/results.py")


def make_row(name: str, pipeline: str, data: str, *, runs: int) -> list[str]:
    """Compare the two formats on one corpus.

    name (str): First cell.
    pipeline (str): Folder or package of a trained pipeline.
    data (str): A `.spacy` file, or a folder of them.
    runs (int): How often each format runs.
    RETURNS (list[str]): Cells in the order of `COLUMNS`.
    """
    pipelines = {precision: load_in(pipeline, precision) for precision in FORMATS}
    examples = load_examples(pipelines["float32"], Path(data))
    docs, speeds = run_in_turn(pipelines, examples, runs=runs)
    words = sum(len(doc) for doc in docs["float32"])
    agreement = compare(docs["float32"], docs["bfloat16"])
    shares = ("-" if share is None else f"{100 * share:.2f}" for share in agreement)
    return [name, f"{len(examples):,}", f"{words:,}", *shares, *(f"{speeds[precision]:,.0f}" for precision in FORMATS)]


def load_in(pipeline: str, precision: str) -> Language:
    """Load a pipeline with every `precision` setting of its components changed.

    pipeline (str): Folder or package.
    precision (str): `float32` or `bfloat16`.
    RETURNS (Language): The pipeline.
    """
    settings = list(precision_settings(load_pipeline(pipeline).config["components"], "components"))
    if not settings:
        raise SystemExit(f"No component of '{pipeline}' has a setting `precision`. Expected one with our backbone or encoder.")
    return spacy.load(pipeline, config=dict.fromkeys(settings, precision))


def precision_settings(block: dict[str, Any], path: str) -> Iterator[str]:
    """Find the settings in a config.

    block (dict[str, Any]): A section.
    path (str): Its name.
    YIELDS (str): Names of settings, for example `components.attention_backbone.model.precision`.
    """
    for key, value in block.items():
        if key == "precision":
            yield f"{path}.{key}"
        elif isinstance(value, dict):
            yield from precision_settings(value, f"{path}.{key}")


def run_in_turn(
    pipelines: dict[str, Language], examples: list[Example], *, runs: int
) -> tuple[dict[str, list[Doc]], dict[str, float]]:
    """Predict with each pipeline, then time all of them in turns.

    pipelines (dict[str, Language]): Format -> pipeline.
    examples (list[Example]): Gold documents.
    runs (int): Turns, at least 1.
    RETURNS (tuple): Format -> predicted documents; format -> words per second, the median.
    """
    docs = {name: [eg.predicted for eg in predict(nlp, examples)[0]] for name, nlp in pipelines.items()}
    texts = [eg.reference.text for eg in examples]
    seconds = time_in_turns([pipe_run(nlp, texts) for nlp in pipelines.values()], rounds=runs)
    speeds = {name: rate(sum(map(len, docs[name])), took)["value"] for name, took in zip(pipelines, seconds, strict=True)}
    return docs, speeds


def compare(ones: list[Doc], others: list[Doc]) -> Agreement:
    """Count on what two predictions for the same texts agree.

    ones, others (list[Doc]): Predicted documents, in the same order and with the same tokens.
    RETURNS (Agreement): Shares.
    """
    pairs = list(zip(ones, others, strict=True))
    tags = [a == b for one, other in pairs for a, b in zip(_tags(one), _tags(other), strict=True)]
    entities = [(_entities(one), _entities(other)) for one, other in pairs]
    either = sum(len(a | b) for a, b in entities)
    both = sum(len(a & b) for a, b in entities)
    exclusive = is_exclusive(ones)
    classes = [
        predicted_classes(one, exclusive=exclusive) == predicted_classes(other, exclusive=exclusive)
        for one, other in pairs
        if one.cats or other.cats
    ]
    return Agreement(_share(tags), both / either if either else None, _share(classes))


def make_result(rows: list[list[str]], *, command: str, runs: int) -> dict[str, Any]:
    """Put the table together with what one needs to make it again.

    rows (list[list[str]]): From `make_row`.
    command (str): The command line.
    runs (int): As of `make_row`.
    RETURNS (dict[str, Any]): The content of a file in docs/results/.
    """
    native = "multiplied natively" if has_native_bfloat16(torch.device("cpu")) else "not multiplied natively"
    return {
        "title": "bfloat16 against float32",
        "command": command,
        "date": datetime.date.today().isoformat(),
        "machine": machine_line(describe_machine()),
        "versions": {name: version for name, version in installed_versions().items() if version},
        "columns": COLUMNS,
        "rows": rows,
        "notes": NOTES.format(runs=runs, threads=torch.get_num_threads(), native=native),
    }


def _tags(doc: Doc) -> list[str]:
    return doc_to_biluo_tags(doc) if doc.has_annotation("ENT_IOB") else []


def _entities(doc: Doc) -> set[tuple[int, int, str]]:
    return {(ent.start, ent.end, ent.label_) for ent in doc.ents}


def _share(alike: Iterable[bool]) -> float | None:
    found = list(alike)
    return sum(found) / len(found) if found else None


def _split(text: str) -> tuple[str, str]:
    name, found, source = text.rpartition("=")
    if not found or "," not in source:
        raise SystemExit(f"Expected NAME=PIPELINE,DATA.spacy, found '{text}'.")
    return name, source


def _parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", action="append", required=True, help="NAME=PIPELINE,DATA.spacy: one table row")
    parser.add_argument("--output", type=Path, default=Path("docs/results/precision.json"), help="result file to write")
    parser.add_argument("--runs", type=int, default=3, help="how often each format runs, at least 1")
    args = parser.parse_args()
    if args.runs < 1:
        parser.error("--runs must be at least 1")
    return args


if __name__ == "__main__":
    main()
