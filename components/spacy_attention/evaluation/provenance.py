"""What a model was made from: data, config, versions, commit, machine."""

import subprocess
from pathlib import Path
from typing import Any

from thinc.api import Config

from .machine import describe_machine
from .predict import sha256
from .report import installed_versions


def describe_origin(config: Config, *, gpu_id: int) -> dict[str, Any]:
    """Collect everything that decides the result of a training.

    config (Config): interpolated.
    gpu_id (int): -1 for the CPU.
    RETURNS (dict): `config`, `data` (checksums of the files under `paths`), `seed`, `versions`, `commit`, `machine`.
    """
    return {
        "config": config.to_str(),
        "data": describe_data(config),
        "seed": config["training"]["seed"],
        "versions": installed_versions(),
        "commit": read_commit(),
        "machine": describe_machine(gpu_id=gpu_id),
    }


def describe_data(config: Config) -> dict[str, dict[str, str]]:
    """config (Config): interpolated. RETURNS (dict): `path` and `sha256` of each file under `paths`, by its name there."""
    named = {name: Path(value) for name, value in config.get("paths", {}).items() if isinstance(value, str)}
    return {name: {"path": str(path), "sha256": sha256(path)} for name, path in named.items() if path.exists()}


def read_commit() -> str | None:
    """RETURNS (str | None): that of the repository one stands in, with `+` behind it for changes that are not committed; None outside."""
    try:
        commit, changes = (
            subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout.strip()
            for arguments in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + ("+" if changes else "")
