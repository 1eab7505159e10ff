"""Install a pipeline's wheel in an empty environment and compare its predictions with the trained model's.

Checks that the wheel needs neither network at run time nor the checkpoint's package, that classes, entities
and confidences agree to 1e-5 on every text, and that without the plugin the message names it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

from spacy_attention.checkpoints import PACKAGED
from spacy_attention.evaluation.report import write_json

SCRIPTS = Path(__file__).resolve().parent
TOLERANCE = 1e-5


def main() -> int:
    """Do all checks and print what differs.

    RETURNS (int): Exit status.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path, help="a wheel of `scripts/package.py`; the plugin's lies beside it")
    parser.add_argument("pipeline", type=Path, help="the trained pipeline that it was made of")
    parser.add_argument("data", type=Path, help=".spacy file whose texts are predicted")
    parser.add_argument("--output", type=Path, help="JSON file for the number of texts and what differs")
    parser.add_argument("--constraints", type=Path, default=SCRIPTS.parent / "constraints.txt")
    args = parser.parse_args()
    for path in (args.wheel, args.pipeline, args.data):
        if not path.exists():
            parser.error(f"{path} does not exist")
    with tempfile.TemporaryDirectory() as scratch:
        python = install(args.wheel, args.constraints, Path(scratch) / "env")
        problems = present_checkpoints(python)
        expected = predict(Path(sys.executable), str(args.pipeline), args.data, Path(scratch))
        found = predict(python, package_name(args.wheel), args.data, Path(scratch))
        problems += differences(expected, found)
        problems += check_missing_plugin(python, package_name(args.wheel))
    if args.output:
        write_json(args.output, {"wheel": args.wheel.name, "texts": len(found), "problems": problems})
    print("\n".join(problems) or f"{args.wheel.name}: {len(found)} texts predicted alike")
    return 1 if problems else 0


def install(wheel: Path, constraints: Path, folder: Path) -> Path:
    """Make an empty virtual environment and install the wheel in it.

    wheel (Path): The pipeline's wheel.
    constraints (Path): Versions of the dependencies.
    folder (Path): Where the environment goes.
    RETURNS (Path): Its Python.
    """
    venv.create(folder, with_pip=True, system_site_packages=False)
    python = folder / "bin" / "python"
    command = [str(python), "-m", "pip", "install", "--quiet", "--find-links", str(wheel.parent), str(wheel)]
    if constraints.exists():
        command += ["--constraint", str(constraints)]
    subprocess.run(command, check=True, env=clean_environment())
    return python


def clean_environment() -> dict[str, str]:
    """Leave out the paths that would make the empty environment see packages from outside it, and pip take them for installed.

    RETURNS (dict[str, str]): Environment variables for every process of that environment.
    """
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


def package_name(wheel: Path) -> str:
    """Read the import name out of a wheel's file name.

    wheel (Path): For example `en_helpdesk-0.1.0-py3-none-any.whl`.
    RETURNS (str): For example `en_helpdesk`.
    """
    return wheel.name.split("-")[0]


def present_checkpoints(python: Path) -> list[str]:
    """Look for packages with checkpoints, which must not be needed.

    python (Path): Python of the environment.
    RETURNS (list[str]): A problem for each that is installed.
    """
    modules = [entry.module for entry in PACKAGED.values()]
    code = f"import importlib.util as u; print(*[m for m in {modules!r} if u.find_spec(m)])"
    found = subprocess.run(
        [python, "-c", code], check=True, capture_output=True, text=True, env=clean_environment()
    ).stdout.split()
    return [f"{module} is installed there, so the check proves nothing" for module in found]


def predict(python: Path, pipeline: str, data: Path, scratch: Path) -> list[dict[str, Any]]:
    """Predict in another process, with no network to fetch from.

    python (Path): The Python to use.
    pipeline (str): Folder or package name.
    data (Path): `.spacy` file.
    scratch (Path): A folder to write in.
    RETURNS (list[dict[str, Any]]): One entry per text, see `predict_texts.describe`.
    """
    output = scratch / "predictions.json"
    command = [str(python), str(SCRIPTS / "predict_texts.py"), pipeline, str(data), str(output)]
    subprocess.run(command, check=True, env={**clean_environment(), "HF_HUB_OFFLINE": "1"})
    return json.loads(output.read_text("utf8"))


def differences(expected: list[dict[str, Any]], found: list[dict[str, Any]]) -> list[str]:
    """Compare predictions text by text.

    expected (list[dict[str, Any]]): What the trained pipeline predicts.
    found (list[dict[str, Any]]): What the installed wheel predicts.
    RETURNS (list[str]): One problem per text that differs.
    """
    if len(expected) != len(found):
        return [f"{len(expected)} texts expected, {len(found)} found"]
    pairs = enumerate(zip(expected, found, strict=True))
    return [f"text {i}: expected {a}, found {b}" for i, (a, b) in pairs if not is_close(a, b)]


def is_close(a: Any, b: Any) -> bool:
    """Compare nested values.

    a (Any): Numbers, strings, None, lists and dicts of them.
    b (Any): The same.
    RETURNS (bool): Whether numbers agree to `TOLERANCE` and all else is equal.
    """
    if isinstance(a, float) and isinstance(b, float):
        return abs(a - b) <= TOLERANCE
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(is_close(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(is_close, a, b))
    return a == b


def check_missing_plugin(python: Path, name: str) -> list[str]:
    """Take the plugin out of the environment and look at the message that loading gives.

    python (Path): Python of the environment; the plugin is gone from it afterwards.
    name (str): Package name of the pipeline.
    RETURNS (list[str]): A problem when loading works or the message does not name the plugin.
    """
    env = clean_environment()
    subprocess.run([python, "-m", "pip", "uninstall", "--quiet", "--yes", "spacy-attention"], check=True, env=env)
    code = f"import spacy; spacy.load({name!r})"
    run = subprocess.run([python, "-c", code], capture_output=True, text=True, env=env)
    last = run.stderr.strip().splitlines()[-1:] or [""]
    if run.returncode and "spacy-attention" in last[0]:
        return []
    return [f"without the plugin: status {run.returncode}, message without its name: {last[0]}"]


if __name__ == "__main__":
    sys.exit(main())
