"""`python -m spacy attention evaluate`: score a pipeline on gold documents and write one JSON file."""

from pathlib import Path
from typing import Annotated, Any

import typer
from spacy.cli._util import setup_gpu
from wasabi import Printer

from ..evaluation.device import check_gpu
from ..evaluation.predict import load_examples, load_pipeline, predict, sha256
from ..evaluation.report import make_report, print_report, write_json
from . import attention_cli


@attention_cli.command("evaluate")
def evaluate_cli(
    pipeline: Annotated[str, typer.Argument(help="Folder or package name of a trained pipeline, ours or not")],
    data: Annotated[Path, typer.Argument(help="Gold documents: a .spacy file or a folder of them")],
    output: Annotated[Path, typer.Option("--output", "-o", help="JSON file to write")],
    gpu_id: Annotated[int, typer.Option("--gpu-id", "-g", help="GPU to use, -1 for the CPU")] = -1,
) -> None:
    """Score a trained pipeline: classes, entities, whole utterances, each label, and speed."""
    msg = Printer()
    try:
        evaluate(pipeline, data, output, gpu_id=gpu_id, silent=False)
    except ValueError as err:
        msg.fail(str(err), exits=1)
    msg.good("Saved the scores", str(output))


def evaluate(pipeline: str, data: Path, output: Path | None = None, *, gpu_id: int = -1, silent: bool = True) -> dict[str, Any]:
    """Score a trained pipeline on gold documents.

    pipeline (str): Folder or package name of any spaCy pipeline.
    data (Path): Gold documents: a `.spacy` file or a folder of them.
    output (Path | None): JSON file to write; None for none.
    gpu_id (int): GPU to use, -1 for the CPU.
    silent (bool): Whether to print nothing and show no progress bar.
    RETURNS (dict[str, Any]): `scores`, `per_label`, `speed`, `data`, `pipeline`, `versions`, unrounded.
    RAISES (ValueError): E501 and E502 for the pipeline, E503 to E505 for the data, E510 and E511 for the GPU.
    """
    check_gpu(gpu_id)
    setup_gpu(gpu_id, silent=silent)
    nlp = load_pipeline(pipeline)
    examples = load_examples(nlp, data)
    report = make_report(nlp, predict(nlp, examples, progress=not silent))
    report["data"] = {
        "file": str(data),
        "sha256": sha256(data),
        "docs": len(examples),
        "tokens": sum(len(eg.reference) for eg in examples),
    }
    report["pipeline"] = {"name": nlp.meta["name"], "version": nlp.meta["version"], "path": pipeline}
    if output is not None:
        write_json(output, report)
    print_report(report, Printer(no_print=silent))
    return report
