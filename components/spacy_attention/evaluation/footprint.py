"""What a pipeline costs besides time: memory, loading, space on disk. Measured in a process of its own.

Run as a module it is that process: it reads a request from its input and writes the figures as its last line.
"""

import contextlib
import json
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

import spacy

from ..errors import Errors
from .predict import load_pipeline

# "load_seconds": `spacy.load` with all that it imports. Resident memory of the process: "load_peak_rss_mb" until it is loaded,
# "rss_after_load_mb", "peak_rss_mb" from then on. "size_mb": files of the pipeline. MB are millions of bytes.
Footprint = dict[str, float | None]


def measure_footprint(pipeline: str, texts: list[str], *, batch_size: int | None = None, gpu_id: int = -1) -> Footprint:
    """Load a pipeline in a new process, run it once over the texts, and see what that took.

    pipeline (str): folder or package name.
    texts (list[str]): what it runs on.
    batch_size (int | None): of `nlp.pipe`; None for the pipeline's own.
    gpu_id (int): GPU to use, -1 for the CPU; its memory is not part of the figures.
    RETURNS (Footprint): see there; memory is None where the system has no /proc.
    RAISES (ValueError): E509 when the process fails.
    """
    request = {"pipeline": pipeline, "texts": texts, "batch_size": batch_size, "gpu_id": gpu_id}
    command = [sys.executable, "-m", "spacy_attention.evaluation.footprint"]
    done = subprocess.run(command, input=json.dumps(request), capture_output=True, text=True, encoding="utf8")
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ValueError(Errors.E509.format(pipeline=pipeline, status=done.returncode, error=last))
    figures: Footprint = json.loads(done.stdout.splitlines()[-1])
    return {**figures, "size_mb": size_on_disk(pipeline) / 1e6}


def size_on_disk(pipeline: str) -> int:
    """Add up the files of a pipeline.

    pipeline (str): folder or package name.
    RETURNS (int): bytes.
    """
    folder = Path(pipeline) if Path(pipeline).exists() else spacy.util.get_package_path(pipeline)
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def run_request(request: dict[str, Any]) -> Footprint:
    """Do in this process what `measure_footprint` asks for.

    request (dict[str, Any]): its arguments.
    RETURNS (Footprint): all but the size.
    """
    if request["gpu_id"] >= 0:
        spacy.require_gpu(request["gpu_id"])
    started = time.perf_counter()
    nlp = load_pipeline(request["pipeline"])
    seconds = time.perf_counter() - started
    loaded = _memory_mb()
    _forget_peak()
    deque(nlp.pipe(request["texts"], batch_size=request["batch_size"]), maxlen=0)
    return {
        "load_seconds": seconds,
        "load_peak_rss_mb": loaded.get("VmHWM"),
        "rss_after_load_mb": loaded.get("VmRSS"),
        "peak_rss_mb": _memory_mb().get("VmHWM"),
    }


def _forget_peak() -> None:
    """Start the maximum anew, so that it is not the one of loading; where the system refuses, it is that of both."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", "utf8")


def _memory_mb() -> dict[str, float]:
    """Read the memory of this process.

    Not from `resource.getrusage`: its maximum is inherited, so that a child of a large process looks as large.

    RETURNS (dict[str, float]): MB of `VmRSS`, resident now, and of `VmHWM`, its maximum; empty where the system has no /proc.
    """
    path = Path("/proc/self/status")
    if not path.exists():
        return {}
    values = dict(line.split(":", 1) for line in path.read_text("utf8").splitlines() if ":" in line)
    return {name: int(values[name].split()[0]) * 1024 / 1e6 for name in ("VmRSS", "VmHWM")}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run_request(json.load(sys.stdin))) + "\n")
