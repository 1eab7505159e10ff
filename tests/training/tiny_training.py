"""A training that takes a second: the tiny config on a tiny checkpoint, with dropout everywhere."""

from pathlib import Path
from typing import Any

import spacy
from spacy.tokens import DocBin
from thinc.api import Config

from .. import helpers
from ..helpers import BACKBONE, ENCODER

TINY = Path(__file__).parents[2] / "configs" / "tiny" / "default.cfg"


def write_config(folder: Path, checkpoint: Path, *, optimizer: str | None = None, **training: Any) -> Path:
    """Write `data.spacy` and `config.cfg`.

    folder (Path): where to. checkpoint (Path): folder of the weights.
    optimizer (str | None): text of a block `optimizer` instead of ours.
    training: settings of the block `training`.
    RETURNS (Path): the config.
    """
    nlp = spacy.blank("en")
    DocBin(docs=[eg.reference for eg in helpers.make_examples(nlp)]).to_disk(folder / "data.spacy")
    config = Config().from_disk(TINY, interpolate=False)
    config["paths"].update(train=str(folder / "data.spacy"), dev=str(folder / "data.spacy"))
    config["training"].update(training)
    config["training"]["batcher"]["size"] = 3
    config["training"]["logger"]["progress_bar"] = None
    config["components"][BACKBONE]["model"].update(
        name=str(checkpoint), transformer_config={"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.0}
    )
    config["components"][ENCODER]["model"]["heads"] = 4
    if optimizer is not None:
        config["training"]["optimizer"] = Config().from_str(optimizer)["optimizer"]
    config.to_disk(folder / "config.cfg")
    return folder / "config.cfg"
