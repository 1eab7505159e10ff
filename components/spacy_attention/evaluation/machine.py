"""What a measurement was made on."""

import os
import platform
from pathlib import Path
from typing import Any

import torch

# Of the many features of a CPU, those that decide how fast a transformer runs on it.
CPU_FEATURES = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")


def describe_machine(*, gpu_id: int = -1) -> dict[str, Any]:
    """Describe processor, cores and device.

    gpu_id (int): the GPU in use, -1 for none.
    RETURNS (dict[str, Any]): `system`, `cpu`, `cores` that this process may use, `cpu_features`, `torch_threads`, `gpu`.
    """
    info = _read_cpuinfo()
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": info.get("model name", platform.processor()),
        "cores": len(os.sched_getaffinity(0)),
        "cpu_features": [name for name in CPU_FEATURES if name in info.get("flags", "").split()],
        "torch_threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name(gpu_id) if gpu_id >= 0 else None,
    }


def machine_line(machine: dict[str, Any]) -> str:
    """Put a machine into one line.

    machine (dict[str, Any]): what `describe_machine` returned.
    RETURNS (str): for the foot of a table.
    """
    features = f" ({', '.join(machine['cpu_features'])})" if machine["cpu_features"] else ""
    gpu = f"; {machine['gpu']}" if machine["gpu"] else ""
    return f"{machine['system']}, {machine['cpu']}{features}, {machine['cores']} cores, {machine['torch_threads']} threads{gpu}"


def _read_cpuinfo() -> dict[str, str]:
    """RETURNS (dict[str, str]): entries of the first core; empty where the system does not say."""
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return {}
    first = path.read_text("utf8").split("\n\n")[0]
    pairs = (line.split(":", 1) for line in first.splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in pairs}
