"""`python -m spacy attention benchmark`: time pipelines side by side, and see what else they cost."""

from pathlib import Path
from typing import Annotated, Any

import typer
from spacy.cli._util import setup_gpu
from wasabi import Printer

from ..errors import Errors
from ..evaluation.benchmark import add_footprints, compare_speed, count_words, print_rows
from ..evaluation.device import check_gpu, limit_threads
from ..evaluation.machine import describe_machine
from ..evaluation.predict import load_pipeline, sha256
from ..evaluation.report import installed_versions, write_json
from ..evaluation.texts import load_texts
from . import attention_cli


@attention_cli.command("benchmark")
def benchmark_cli(
    pipelines: Annotated[list[str], typer.Argument(help="Folders or package names of pipelines; the first is the reference")],
    data: Annotated[Path, typer.Option("--data", "-d", help="Texts: .spacy, .jsonl with text, or .txt with one a line")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="JSON file to write")] = None,
    rounds: Annotated[int, typer.Option(help="Counted rounds; in each, every pipeline runs once")] = 5,
    batch_size: Annotated[int | None, typer.Option(help="Texts per batch, for all; default: each pipeline's own")] = None,
    limit: Annotated[int, typer.Option(help="Only the first so many texts; 0 for all")] = 0,
    threads: Annotated[int | None, typer.Option(help="CPU threads; default: as torch finds them")] = None,
    gpu_id: Annotated[int, typer.Option("--gpu-id", "-g", help="GPU to use, -1 for the CPU")] = -1,
    speed_only: Annotated[bool, typer.Option("--speed-only", help="Leave out memory, load time and size")] = False,
) -> None:
    """Time pipelines side by side on the same texts, and measure memory, load time and size."""
    msg = Printer()
    try:
        benchmark(
            pipelines,
            data,
            output,
            rounds=rounds,
            batch_size=batch_size,
            limit=limit,
            threads=threads,
            gpu_id=gpu_id,
            speed_only=speed_only,
            silent=False,
        )
    except ValueError as err:
        msg.fail(str(err), exits=1)
    if output is not None:
        msg.good("Saved the figures", str(output))


def benchmark(
    pipelines: list[str],
    data: Path,
    output: Path | None = None,
    *,
    rounds: int = 5,
    batch_size: int | None = None,
    limit: int = 0,
    threads: int | None = None,
    gpu_id: int = -1,
    speed_only: bool = False,
    silent: bool = True,
) -> dict[str, Any]:
    """Time pipelines side by side, and measure memory, load time and size of each in a process of its own.

    pipelines (list[str]): folders or package names; the first is what the others are compared with. One given twice shows how far
        apart equal things measure.
    data (Path): texts, see `load_texts`.
    output (Path | None): JSON file to write; None for none.
    rounds (int): counted rounds; one before them is not.
    batch_size (int | None): texts per batch of `nlp.pipe`; None for each pipeline's own.
    limit (int): the first so many texts only; 0 for all.
    threads (int | None): CPU threads; None as torch finds them.
    gpu_id (int): GPU to use, -1 for the CPU.
    speed_only (bool): leave out memory, load time and size.
    silent (bool): whether to print nothing and show no progress bar.
    RETURNS (dict[str, Any]): `pipelines` (see `compare_speed` and `Footprint`), `data`, `settings`, `machine`, `versions`.
    RAISES (ValueError): E501 and E502 for a pipeline, E504 and E506 to E508 for the data, E509 for a process that failed, E510
        and E511 for the GPU, E512 for an option out of its range.
    """
    settings = {"rounds": rounds, "batch_size": batch_size, "limit": limit, "threads": threads, "gpu_id": gpu_id}
    _check_options(settings)
    check_gpu(gpu_id)
    texts = load_texts(data, limit=limit)
    with limit_threads(threads):
        setup_gpu(gpu_id, silent=silent)
        loaded = [load_pipeline(name) for name in pipelines]
        rows = compare_speed(pipelines, loaded, texts, rounds=rounds, batch_size=batch_size, progress=not silent)
        if not speed_only:
            add_footprints(rows, texts, batch_size=batch_size, gpu_id=gpu_id, progress=not silent)
        machine = describe_machine(gpu_id=gpu_id)
    words = count_words(loaded[0], texts)
    report = {
        "pipelines": rows,
        "data": {"file": str(data), "sha256": sha256(data), "texts": len(texts), "words": words},
        "settings": settings,
        "machine": machine,
        "versions": installed_versions(),
    }
    if output is not None:
        write_json(output, report)
    print_rows(rows, Printer(no_print=silent))
    return report


def _check_options(settings: dict[str, Any]) -> None:
    """RAISES (ValueError): E512 naming the option that is too small."""
    for name, least in (("rounds", 1), ("batch_size", 1), ("limit", 0), ("threads", 1)):
        value = settings[name]
        if value is not None and value < least:
            raise ValueError(Errors.E512.format(option=f"--{name.replace('_', '-')}", least=least, found=value))
