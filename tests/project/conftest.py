"""The project's root, and its scripts as modules."""

import importlib.util
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spacy_attention.cli import attention_cli

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def load_script():
    """Import a file of scripts/ by its name."""

    def load(name):
        spec = importlib.util.spec_from_file_location(f"script_{name}", ROOT / "scripts" / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture
def run_here():
    """In the place of `subprocess.run` of a script: an `attention` command without a new process, which takes seconds to start."""

    def run(command, *, check):
        assert check
        arguments = command[command.index("attention") + 1 :]
        result = CliRunner().invoke(attention_cli, arguments, catch_exceptions=False)
        assert result.exit_code == 0, result.output

    return run
