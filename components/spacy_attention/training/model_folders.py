"""The two folders with trained pipelines that `spacy train` leaves, always whole."""

from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.training.loop import DIR_MODEL_BEST, DIR_MODEL_LAST, create_before_to_disk_callback, update_meta

from .folders import copy_folder, finish_replacing, remove_folder, replace_folder


def remove_models(output: Path) -> None:
    """Take both folders away, each in one step. output (Path): holds them, if they are there."""
    for name in (DIR_MODEL_BEST, DIR_MODEL_LAST):
        remove_folder(output / name)


class ModelFolders:
    """`model-best` and `model-last`.

    nlp (Language): the pipeline.
    settings (dict): the resolved block `training`.
    output (Path): holds both.
    """

    def __init__(self, nlp: Language, settings: dict[str, Any], output: Path):
        self.nlp = nlp
        self.settings = settings
        self.best, self.last = output / DIR_MODEL_BEST, output / DIR_MODEL_LAST
        self._before_to_disk = create_before_to_disk_callback(settings["before_to_disk"])
        for folder in (self.best, self.last):
            finish_replacing(folder)

    def save(self, info: dict[str, Any] | None, averages: dict[Any, Any] | None, *, is_best: bool) -> None:
        """Write the pipeline as it is.

        info (dict | None): of the step, for the scores in the meta data; None leaves those that are there.
        averages (dict | None): weights that take the place of those in training, if there are any.
        is_best (bool): whether `model-best` gets a copy.
        RAISES (OSError): E621 when there is no space left; what was there stays.
        """
        if info is not None:
            with self.nlp.select_pipes(disable=self.settings["frozen_components"]):
                update_meta(self.settings, self.nlp, info)
        with self.nlp.use_params(averages):
            replace_folder(self.last, lambda folder: self._before_to_disk(self.nlp).to_disk(folder))
        if is_best:
            replace_folder(self.best, lambda folder: copy_folder(self.last, folder))
