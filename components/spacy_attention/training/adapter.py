"""`spacy-attention.save_adapter.v1`: the adapters of the backbone in a folder of their own, beside the pipelines that are saved."""

from collections.abc import Callable
from pathlib import Path

from spacy.language import Language

from ..errors import Errors
from .backbones import backbones_of


def save_adapter(nlp: Language, folder: str | Path) -> None:
    """Write the adapters of the backbone as `save_pretrained` of the library peft does, and `base.json` about the weights they belong to.

    nlp (Language): with one backbone that has adapters (`lora`).
    folder (str | Path): made if it is not there; gets `adapter_config.json`, `adapter_model.safetensors`, and `base.json` with `name` and
        `sha256` of the checkpoint. The name is null where the training began with a saved pipeline, and the checksum that of its weights.
    RAISES (ValueError): E602 for several backbones, E604 for none, E121 for one without adapters.
    """
    backbones = backbones_of(nlp)
    if len(backbones) > 1:
        raise ValueError(Errors.E602.format(n=len(backbones)))
    unfinished = Path(folder) / ".unfinished"
    backbones[0].save_adapter(unfinished)
    # Each file whole at any moment.
    for path in unfinished.iterdir():
        path.replace(Path(folder) / path.name)
    unfinished.rmdir()


def create_save_adapter(folder: str) -> Callable[[Language], Language]:
    """Make a callback for `[training.before_to_disk]`.

    folder (str): see `save_adapter`; written each time a pipeline is saved.
    RETURNS (Callable): takes a pipeline and gives it back as it is.
    """

    def before_to_disk(nlp: Language) -> Language:
        save_adapter(nlp, folder)
        return nlp

    return before_to_disk
