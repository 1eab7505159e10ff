"""What a training gives while it runs: lines of the loggers, the progress bar, models and checkpoints."""

from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from spacy.language import Language
from thinc.api import Optimizer

from .checkpoint import Progress, write_checkpoint
from .model_folders import ModelFolders
from .progress_bar import ProgressBar


class Outputs:
    """None at all: of a worker that is not the first."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        pass

    def add_checkpoint(self, optimizer: Optimizer, progress: Progress, random_states: list[dict[str, Any]]) -> None:
        """optimizer, progress, random_states: as of `write_checkpoint`."""

    def add_step(self, info: dict[str, Any], optimizer: Optimizer, *, is_best: bool | None) -> None:
        """info (dict): what loggers get. optimizer (Optimizer): has the averages. is_best (bool | None): None without an evaluation."""

    def finish(self, optimizer: Optimizer) -> None:
        """optimizer (Optimizer): has the averages."""


class AllOutputs(Outputs):
    """Of the first worker, or the only one. A context, in which the loggers are open.

    nlp (Language), settings (dict): the pipeline and the resolved block `training`.
    folder (Path): of the training.
    models (ModelFolders): in it.
    bar (ProgressBar): of this training.
    on_evaluation (Callable): gets what loggers get, before the models are written.
    stdout, stderr (IO): for the logger.
    """

    def __init__(
        self,
        nlp: Language,
        settings: dict[str, Any],
        folder: Path,
        models: ModelFolders,
        bar: ProgressBar,
        on_evaluation: Callable[[dict[str, Any]], None],
        *,
        stdout: IO,
        stderr: IO,
    ):
        self.nlp, self.folder, self.models, self.bar = nlp, folder, models, bar
        self._on_evaluation = on_evaluation
        with bar.hidden(), nlp.select_pipes(disable=settings["frozen_components"]):
            self._log, self._finish_log = settings["logger"](nlp, stdout, stderr)

    def __exit__(self, *error: Any) -> None:
        """Close the loggers, also after an error."""
        self.bar.close()
        self._finish_log()

    def add_checkpoint(self, optimizer: Optimizer, progress: Progress, random_states: list[dict[str, Any]]) -> None:
        """RAISES (OSError): E621 when there is no space left."""
        write_checkpoint(self.folder, self.nlp, optimizer, progress, random_states)

    def add_step(self, info: dict[str, Any], optimizer: Optimizer, *, is_best: bool | None) -> None:
        """After an evaluation write the models, and their scores in the log. RAISES (OSError): E621 when there is no space left."""
        self.bar.add_step(info)
        if is_best is None:
            self._log(None)
            return
        self._on_evaluation(info)
        self.models.save(info, optimizer.averages, is_best=is_best)
        info["output_path"] = str(self.models.last)
        with self.bar.hidden():
            self._log(info)

    def finish(self, optimizer: Optimizer) -> None:
        """Write the last model. RAISES (OSError): E621 when there is no space left."""
        self.models.save(None, optimizer.averages, is_best=False)
