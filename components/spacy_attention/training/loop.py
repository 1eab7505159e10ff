"""A training as `spacy train` does it, step by step the same, that can go on after it was killed."""

import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import IO, Any, NamedTuple

from spacy.language import Language
from spacy.schemas import ConfigSchemaTraining
from spacy.training import Example
from spacy.training.loop import subdivide_batch
from spacy.util import registry, resolve_dot_names
from thinc.api import Optimizer, fix_random_seed, set_gpu_allocator

from .backbones import count_pieces, find_backbones
from .batches import make_batches
from .checkpoint import Progress, read_progress, restore
from .evaluation import create_evaluation
from .guard import GradientWatch, check_averages, check_losses, warn_of_chance, warn_of_unknown_labels
from .model_folders import ModelFolders
from .outputs import AllOutputs, Outputs
from .progress_bar import ProgressBar, without_bars
from .random_state import OwnRandom, get_random_state
from .workers import Workers

# The first evaluation after so many steps should have better scores than guessing.
CHANCE_AFTER = 100


class Training(NamedTuple):
    """What the config says, made.

    settings (dict): the resolved block `training`.
    optimizer (Optimizer): ours or Thinc's.
    batches (Iterator): of epoch and batch, from the step that comes next.
    dropouts (Iterator[float]): of the steps, likewise.
    evaluate (Callable): gives the score and all scores on the dev corpus.
    watch (GradientWatch): of the heads.
    workers (Workers): who train together.
    """

    settings: dict[str, Any]
    optimizer: Optimizer
    batches: Iterator[tuple[int, list[Example]]]
    dropouts: Iterator[float]
    evaluate: Callable[[], tuple[float, dict[str, Any]]]
    watch: GradientWatch
    workers: Workers


def train(
    nlp: Language,
    output: Path,
    *,
    checkpoint: Path | None = None,
    checkpoint_every: int = 0,
    gpu_id: int = -1,
    workers: Workers,
    on_evaluation: Callable[[dict[str, Any]], None],
    stdout: IO,
    stderr: IO,
) -> None:
    """Train a pipeline and write `model-best`, `model-last` and checkpoints.

    nlp (Language): initialized, or from `read_pipeline`, with the whole config.
    output (Path): folder for all of it.
    checkpoint (Path | None): to go on from; None to begin.
    checkpoint_every (int): steps from one checkpoint to the next; 0 for none but those at the end of each epoch.
    gpu_id (int): -1 for the CPU.
    workers (Workers): who train together, each in a process that calls this with the same arguments.
    on_evaluation (Callable): gets what loggers get, before the models are written.
    stdout, stderr (IO): for the logger; the progress bar goes to the second.
    RAISES (OSError): E621 when there is no space left, E628 when another worker is gone. (ValueError): E624 for a loss that is not
        finite, E632 for such a gradient, E625 for no examples, E627 for what several workers cannot train, E629 where they have other weights or batches.
    """
    training, progress = _prepare(nlp, checkpoint, gpu_id, workers)
    outputs = Outputs()
    if workers.is_first:
        bar = ProgressBar(training.settings["max_steps"], begin=progress.step, file=stderr)
        models = ModelFolders(nlp, training.settings, output)
        outputs = AllOutputs(nlp, training.settings, output, models, bar, on_evaluation, stdout=stdout, stderr=stderr)
    with outputs:
        while not _is_done(progress, training.settings):
            epoch, batch = next(training.batches, (None, []))
            if epoch is None:
                break
            if _is_due(progress, epoch, checkpoint_every):
                outputs.add_checkpoint(training.optimizer, progress, workers.gather(get_random_state()))
            info, is_best = _step(nlp, training, progress, epoch, batch)
            outputs.add_step(info, training.optimizer, is_best=is_best)
            if is_best is not None:
                progress.losses = {}
    outputs.finish(training.optimizer)


def _is_due(progress: Progress, epoch: int, checkpoint_every: int) -> bool:
    """Whether to write a checkpoint before a step of this epoch."""
    ended = progress.step > 0 and epoch > progress.epoch
    return ended or (checkpoint_every > 0 and progress.step > 0 and progress.step % checkpoint_every == 0)


def _is_done(progress: Progress, settings: dict[str, Any]) -> bool:
    """Whether the last step was the last of all, by the two rules of spaCy's loop."""
    last = progress.step - 1
    if settings["max_steps"] and last >= settings["max_steps"]:
        return True
    if not (settings["patience"] and progress.results):
        return False
    best_step = -max((score, -step) for score, step in progress.results)[1]
    return last - best_step >= settings["patience"]


def _step(
    nlp: Language, training: Training, progress: Progress, epoch: int, batch: list[Example]
) -> tuple[dict[str, Any], bool | None]:
    """One update, and an evaluation where one is due. RETURNS (tuple): what loggers get, and whether the score is the best, if any."""
    start, step, settings = perf_counter(), progress.step, training.settings
    _update(nlp, training, progress, epoch, batch)
    score, other_scores, is_best = None, None, None
    if step % settings["eval_frequency"] == 0:
        training.workers.check_weights(nlp)
        with nlp.use_params(training.optimizer.averages):
            score, other_scores = training.workers.from_first(training.evaluate)
        progress.results.append((score, step))
        is_best = score == max(progress.results)[0]
        if step >= CHANCE_AFTER and all(earlier < CHANCE_AFTER for _, earlier in progress.results[:-1]):
            warn_of_chance(other_scores, training.optimizer.learn_rate, step)
    progress.step, progress.epoch = step + 1, epoch
    progress.docs += len(batch)
    progress.words += sum(len(eg) for eg in batch)
    progress.seconds += perf_counter() - start
    info = {
        "epoch": epoch,
        "step": step,
        "score": score,
        "other_scores": other_scores,
        "losses": progress.losses,
        "checkpoints": progress.results,
        "seconds": int(progress.seconds),
        "words": progress.words,
        "docs": progress.docs,
        "pieces": progress.pieces,
        "update_seconds": progress.update_seconds,
    }
    return info, is_best


def _update(nlp: Language, training: Training, progress: Progress, epoch: int, batch: list[Example]) -> None:
    settings = training.settings
    if settings["before_update"]:
        settings["before_update"](nlp, {"step": progress.step, "epoch": epoch})
    drop, frozen = next(training.dropouts), settings["frozen_components"]
    start, pieces = perf_counter(), count_pieces(nlp)
    losses: dict[str, float] = {}
    for part in subdivide_batch(training.workers.share(batch), settings["accumulate_gradient"]):
        nlp.update(part, drop=drop, losses=losses, sgd=False, exclude=frozen, annotates=settings["annotating_components"])
    for name, loss in training.workers.sum_numbers(losses).items():
        progress.losses[name] = progress.losses.get(name, 0.0) + loss
    # Before the weights have changed.
    check_losses(progress.losses, progress.step)
    training.watch.look(nlp, progress.step)
    progress.waiting = sorted(training.watch.waiting)
    for name, pipe in nlp.pipeline:
        # As spaCy asks: a component need not be of its class.
        if name not in frozen and getattr(pipe, "is_trainable", False) and pipe.model not in (True, False, None):  # type: ignore[attr-defined]
            pipe.finish_update(training.optimizer)  # type: ignore[attr-defined]
    training.workers.sum_gradients(nlp, training.optimizer)
    training.optimizer.step_schedules()
    progress.pieces += sum(training.workers.gather(count_pieces(nlp) - pieces))
    progress.update_seconds += perf_counter() - start


def _prepare(nlp: Language, checkpoint: Path | None, gpu_id: int, workers: Workers) -> tuple[Training, Progress]:
    """Make everything as for a beginning, then go forward to where the checkpoint stands."""
    config = nlp.config.interpolate()
    if config["training"]["seed"] is not None:
        fix_random_seed(config["training"]["seed"])
    if gpu_id >= 0 and config["training"]["gpu_allocator"]:
        set_gpu_allocator(config["training"]["gpu_allocator"])
    # There is one bar, ours.
    without_bars(config["training"]["logger"])
    settings = registry.resolve(config["training"], schema=ConfigSchemaTraining)
    workers.check(settings["optimizer"], settings["seed"])
    train_corpus, dev_corpus = resolve_dot_names(config, [settings["train_corpus"], settings["dev_corpus"]])
    progress = Progress(random.getstate()) if checkpoint is None else read_progress(checkpoint)
    own_random = OwnRandom(progress.data_random)
    batches = make_batches(nlp, train_corpus, settings["batcher"], max_epochs=settings["max_epochs"], own_random=own_random)
    dropout = settings["dropout"]
    dropouts = itertools.repeat(dropout) if isinstance(dropout, float) else iter(dropout)
    evaluate = create_evaluation(nlp, dev_corpus, settings["score_weights"])
    check_averages(nlp, settings["optimizer"], settings["frozen_components"])
    trained = (name for name, pipe in nlp.pipeline if getattr(pipe, "is_trainable", False) and getattr(pipe, "labels", False))
    watch = GradientWatch(name for name in trained if name not in settings["frozen_components"])
    if progress.waiting is not None:
        watch.waiting = set(progress.waiting)
    training = Training(settings, settings["optimizer"], batches, dropouts, evaluate, watch, workers)
    if checkpoint is None:
        _begin(nlp, training)
        warn_of_unknown_labels(nlp, dev_corpus(nlp))
        return training, progress
    for _ in range(progress.step):
        next(batches)
        next(dropouts)
        # Only the schedules: nothing has been collected yet.
        Optimizer.step_schedules(training.optimizer)
    restore(checkpoint, nlp, training.optimizer, rank=workers.rank)
    return training, progress


def _begin(nlp: Language, training: Training) -> None:
    """The same weights for all workers, those included that are drawn now; then another dropout for each share of the same batches."""
    for backbone in find_backbones(nlp):
        backbone.prepare_update()
    training.workers.check_weights(nlp)
    if not training.workers.is_first:
        fix_random_seed(training.settings["seed"] + training.workers.rank)
