"""What stands below every table of results: how, when, on what and with what it was made."""

import datetime
from typing import Any

from spacy_attention.evaluation.machine import describe_machine, machine_line
from spacy_attention.evaluation.report import installed_versions


def make_stamp(command: str, *, gpu_id: int = -1) -> dict[str, Any]:
    """RETURNS (dict[str, Any]): `command`, `date`, `machine`, `versions`. command (str): makes it again. gpu_id (int): -1 for the CPU."""
    return {
        "command": command,
        "date": datetime.date.today().isoformat(),
        "machine": machine_line(describe_machine(gpu_id=gpu_id)),
        "versions": {package: version for package, version in installed_versions().items() if version},
    }
