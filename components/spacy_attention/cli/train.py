"""`python -m spacy attention train`: as `spacy train`, can go on after it was killed, and can use several processes."""

import io
import os
import sys
import warnings
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from spacy import util
from spacy.cli._util import import_code, parse_config_overrides, setup_gpu, show_validation_error
from spacy.language import Language
from spacy.training.initialize import init_nlp
from thinc.api import Config, ConfigValidationError
from torch.distributed import is_torchelastic_launched
from wasabi import Printer

from ..errors import Errors
from ..evaluation.device import check_gpu
from ..evaluation.provenance import describe_data, describe_origin
from ..training.checkpoint import FOLDER, find_checkpoints, read_pipeline, read_progress, remove_checkpoints
from ..training.launch import launch
from ..training.lock import alone_in
from ..training.loop import train as train_loop
from ..training.model_folders import remove_models
from ..training.record import RunRecord
from ..training.request import read_request, write_request
from ..training.workers import Workers, join_workers
from . import attention_cli


class TrainOptions(NamedTuple):
    """What a training is asked for besides its config; can be pickled.

    resume (bool): go on from the last checkpoint.
    checkpoint_every (int): steps between checkpoints; 0 for none but those after each epoch.
    gpu_id (int): GPU to use, -1 for the CPU; of several workers that of the first, the others have those that follow.
    code (Path | None): Python file with registered functions.
    silent (bool): whether to print nothing.
    """

    resume: bool = False
    checkpoint_every: int = 200
    gpu_id: int = -1
    code: Path | None = None
    silent: bool = False


@attention_cli.command("train", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def train_cli(
    ctx: typer.Context,
    config: Annotated[Path, typer.Argument(help="Training config, as for `spacy train`", exists=True, dir_okay=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for model-best, model-last and checkpoints")],
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint in the output folder")] = False,
    checkpoint_every: Annotated[int, typer.Option(min=0, help="Steps between checkpoints; 0: only after each epoch")] = 200,
    workers: Annotated[int, typer.Option(min=1, help="Processes that train together, on this machine")] = 1,
    code: Annotated[Path | None, typer.Option("--code", "-c", help="Python file with registered functions")] = None,
    gpu_id: Annotated[
        int, typer.Option("--gpu-id", "-g", help="GPU to use, -1 for the CPU; of several workers that of the first")
    ] = -1,
) -> None:
    """Train or update a pipeline; further options override settings of the config, as in `--training.max_steps 100`."""
    msg, rank = Printer(), 0
    overrides = parse_config_overrides(ctx.args)
    options = TrainOptions(resume, checkpoint_every, gpu_id, code)
    with show_validation_error(config):
        try:
            if is_torchelastic_launched():
                rank = _train_under_torchrun(config, output, options, overrides, workers=workers)
            else:
                train(config, output, workers=workers, overrides=overrides, **options._asdict())
        except ConfigValidationError:
            raise  # it has a table of its own
        except (ImportError, ValueError, OSError) as err:
            msg.fail(str(err), exits=1)
    if rank == 0:
        msg.good("Saved the pipelines", str(output))


def train(config: Path, output: Path, *, workers: int = 1, overrides: dict[str, Any] | None = None, **options: Any) -> None:
    """Train a pipeline from a config.

    config (Path): training config, as for `spacy train`.
    output (Path): folder for `model-best`, `model-last` and `checkpoints`.
    workers (int): processes that train together, started here; 1 for this process.
    overrides (dict | None): settings of the config by their dotted names.
    options: see `TrainOptions`.
    RAISES (ValueError): E620 for an unfinished training that is not resumed, E622 and E623 for one that cannot be, E630 for a worker that
        ended, E635 while another process trains into the same folder; see also `training.loop.train`.
    """
    asked = TrainOptions(**options)
    if workers == 1:
        check_gpu(asked.gpu_id)
        _train(Workers(), config, output, asked, overrides or {}, gpu=asked.gpu_id)
    else:
        launch(partial(_launched, size=workers, config=config, output=output, options=asked, overrides=overrides), workers)


def train_worker(
    rank: int,
    world_size: int,
    config: Path,
    output: Path,
    options: TrainOptions,
    overrides: dict[str, Any] | None = None,
    *,
    local_rank: int | None = None,
    init_method: str = "env://",
) -> None:
    """Be one of several processes that train a pipeline together; any launcher can call this in each.

    rank (int): number of this process, from 0. world_size (int): number of processes.
    config (Path), output (Path), options (TrainOptions), overrides (dict | None): the same in each. The first writes `output`, all read a
        checkpoint there.
    local_rank (int | None): number of this process on its machine, which chooses its GPU; None for `rank`.
    init_method (str): where the processes meet, as of `torch.distributed.init_process_group`.
    RAISES (ValueError, OSError): as `train`, and E628 when another process is gone.
    """
    gpu = options.gpu_id if options.gpu_id < 0 else options.gpu_id + (rank if local_rank is None else local_rank)
    check_gpu(gpu)
    if rank:
        # The first one says what there is to say.
        options = options._replace(silent=True)
        warnings.simplefilter("ignore")
    with join_workers(rank, world_size, init_method=init_method, gpu=gpu) as group:
        _train(group, config, output, options, overrides or {}, gpu=gpu)


def _train_under_torchrun(config: Path, output: Path, options: TrainOptions, overrides: dict[str, Any], *, workers: int) -> int:
    """Be the process that the environment says. RETURNS (int): its rank. RAISES (ValueError): E631 when `workers` is another number."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if workers not in (1, size):
        raise ValueError(Errors.E631.format(size=size, workers=workers))
    train_worker(rank, size, config, output, options, overrides, local_rank=int(os.environ["LOCAL_RANK"]))
    return rank


def _launched(rank: int, init_method: str, *, size: int, **arguments: Any) -> None:
    train_worker(rank, size, init_method=init_method, **arguments)


def _train(workers: Workers, config: Path, output: Path, options: TrainOptions, overrides: dict[str, Any], *, gpu: int) -> None:
    import_code(options.code)
    setup_gpu(gpu, silent=options.silent)
    settings = util.load_config(config, overrides=overrides, interpolate=False)
    asked = {"checkpoint_every": options.checkpoint_every, "gpu_id": options.gpu_id, "workers": workers.size}
    request = {"config": dict(settings), "data": describe_data(settings.interpolate()), **asked}
    with alone_in(output, make=not options.resume) if workers.is_first else nullcontext():
        _train_alone(workers, output, settings, options, request, gpu=gpu)


def _train_alone(
    workers: Workers, output: Path, settings: Config, options: TrainOptions, request: dict[str, Any], *, gpu: int
) -> None:
    finished, checkpoint = workers.from_first(lambda: _begin(output, request, resume=options.resume))
    if finished:
        return
    nlp = init_nlp(settings, use_gpu=gpu) if checkpoint is None else read_pipeline(checkpoint)
    stdout = io.StringIO() if options.silent else sys.stdout
    record = _begin_record(nlp, output, checkpoint, gpu) if workers.is_first else None
    train_loop(
        nlp,
        output,
        checkpoint=checkpoint,
        checkpoint_every=options.checkpoint_every,
        gpu_id=gpu,
        workers=workers,
        on_evaluation=lambda info: record.add_evaluation(info) if record else None,
        stdout=stdout,
        stderr=stdout if options.silent else sys.stderr,
    )
    if record:
        record.end()
        # In this order: a process killed in between must not begin anew.
        write_request(output, request, finished=True)
        remove_checkpoints(output)


def _begin(output: Path, request: dict[str, Any], *, resume: bool) -> tuple[bool, Path | None]:
    """Prepare the folder. RETURNS (tuple): whether all is done already, and the checkpoint to go on from; None to begin."""
    if resume and read_request(output, request):
        remove_checkpoints(output)
        return True, None
    checkpoint = _last_checkpoint(output, resume=resume)
    if checkpoint is None:
        # In this order: one that has ended may have been here, and must not seem to have ended without its models.
        write_request(output, request, finished=False)
        remove_models(output)
    return False, checkpoint


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
