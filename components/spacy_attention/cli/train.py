"""`python -m spacy attention train`: as `spacy train`, and can go on after it was killed."""

import io
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from spacy import util
from spacy.cli._util import import_code, parse_config_overrides, setup_gpu, show_validation_error
from spacy.language import Language
from spacy.training.initialize import init_nlp
from spacy.training.loop import clean_output_dir
from wasabi import Printer

from ..errors import Errors
from ..evaluation.device import check_gpu
from ..evaluation.provenance import describe_origin
from ..training.checkpoint import FOLDER, find_checkpoints, read_pipeline, read_progress, remove_checkpoints
from ..training.loop import train as train_loop
from ..training.record import RunRecord
from ..training.request import read_request, write_request
from . import attention_cli


@attention_cli.command("train", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def train_cli(
    ctx: typer.Context,
    config: Annotated[Path, typer.Argument(help="Training config, as for `spacy train`", exists=True, dir_okay=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for model-best, model-last and checkpoints")],
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint in the output folder")] = False,
    checkpoint_every: Annotated[int, typer.Option(min=0, help="Steps between checkpoints; 0: only after each epoch")] = 200,
    code: Annotated[Path | None, typer.Option("--code", "-c", help="Python file with registered functions")] = None,
    gpu_id: Annotated[int, typer.Option("--gpu-id", "-g", help="GPU to use, -1 for the CPU")] = -1,
) -> None:
    """Train or update a pipeline; further options override settings of the config, as in `--training.max_steps 100`."""
    msg = Printer()
    import_code(code)
    overrides = parse_config_overrides(ctx.args)
    with show_validation_error(config):
        try:
            train(config, output, resume=resume, checkpoint_every=checkpoint_every, gpu_id=gpu_id, overrides=overrides)
        except (ValueError, OSError) as err:
            msg.fail(str(err), exits=1)
    msg.good("Saved the pipelines", str(output))


def train(
    config: Path,
    output: Path,
    *,
    resume: bool = False,
    checkpoint_every: int = 200,
    gpu_id: int = -1,
    overrides: dict[str, Any] | None = None,
    silent: bool = False,
) -> None:
    """Train a pipeline from a config.

    config (Path): training config, as for `spacy train`.
    output (Path): folder for `model-best`, `model-last` and `checkpoints`.
    resume (bool): go on from the last checkpoint.
    checkpoint_every (int): steps between checkpoints; 0 for none but those after each epoch.
    gpu_id (int): GPU to use, -1 for the CPU.
    overrides (dict | None): settings of the config by their dotted names.
    silent (bool): whether to print nothing.
    RAISES (ValueError): E620 for an unfinished training that is not resumed, E622 and E623 for one that cannot be; see also
        `training.loop.train`.
    """
    check_gpu(gpu_id)
    setup_gpu(gpu_id, silent=silent)
    settings = util.load_config(config, overrides=overrides or {}, interpolate=False)
    request = {"config": dict(settings), "checkpoint_every": checkpoint_every, "gpu_id": gpu_id}
    if resume and read_request(output, request):
        remove_checkpoints(output)
        return
    checkpoint = _last_checkpoint(output, resume=resume)
    if checkpoint is None:
        clean_output_dir(output)
        output.mkdir(parents=True, exist_ok=True)
        write_request(output, request, finished=False)
    nlp = init_nlp(settings, use_gpu=gpu_id) if checkpoint is None else read_pipeline(checkpoint)
    record = _begin_record(nlp, output, checkpoint, gpu_id)
    stdout = io.StringIO() if silent else sys.stdout
    train_loop(
        nlp,
        output,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        gpu_id=gpu_id,
        on_evaluation=record.add_evaluation,
        stdout=stdout,
        stderr=stdout if silent else sys.stderr,
    )
    record.end()
    # In this order: a process killed in between must not begin anew.
    write_request(output, request, finished=True)
    remove_checkpoints(output)


def _last_checkpoint(output: Path, *, resume: bool) -> Path | None:
    """RETURNS (Path | None): to go on from; None to begin. RAISES (ValueError): E620 for one that would be lost."""
    found = find_checkpoints(output)
    if found and not resume:
        raise ValueError(Errors.E620.format(path=output / FOLDER, step=found[-1].name.removeprefix("step-")))
    return found[-1] if found else None


def _begin_record(nlp: Language, output: Path, checkpoint: Path | None, gpu_id: int) -> RunRecord:
    config = nlp.config.interpolate()
    record = RunRecord(output, config["training"]["score_weights"])
    facts = describe_origin(config, gpu_id=gpu_id)
    if checkpoint is None:
        record.begin(facts)
    else:
        record.resume(read_progress(checkpoint).step, facts)
    return record
