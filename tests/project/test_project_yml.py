"""project.yml is complete, and the workflow `tiny` runs from end to end."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest
from weasel.cli.document import project_document
from weasel.util.config import load_project_config

# What commands make, and what is fetched: it need not be there before a run.
MADE = ("corpus/", "training/", "metrics/", "packages/", "assets/snips")


@pytest.fixture(scope="module")
def project(root, tmp_path_factory):
    """The parsed project, read from a copy because reading makes the folders that it names."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copy(root / "project.yml", folder)
    return load_project_config(folder)


@pytest.fixture(scope="module")
def commands(project):
    return {command["name"]: command for command in project["commands"]}


def test_every_command_has_help_and_a_place(project, commands):
    assert all(command["help"] and command["script"] for command in commands.values())
    assert project["workflows"]["all"][-1] == "package"
    assert {step for steps in project["workflows"].values() for step in steps} <= set(commands)


def test_every_dependency_is_there_or_made_before(root, project, commands):
    outputs = {path for command in commands.values() for path in command.get("outputs", [])}
    for name, command in commands.items():
        for path in command.get("deps", []):
            assert (root / path).exists() or path in outputs, f"{name}: {path}"
            assert path not in outputs or path.startswith(MADE) or path == "docs/results.md"


def test_every_step_finds_what_earlier_steps_made(project, commands):
    for steps in project["workflows"].values():
        made: set[str] = set()
        for step in steps:
            needed = [path for path in commands[step].get("deps", []) if path.startswith(MADE)]
            assert set(needed) <= made, step
            made.update(commands[step].get("outputs", []))


def test_every_script_names_files_that_exist(root, commands):
    for command in commands.values():
        for line in command["script"]:
            words = shlex.split(line)
            scripts = [word for word in words if word.startswith(("scripts/", "configs/"))]
            assert all((root / path).exists() for path in scripts), line
            assert words[0] in ("python", "rm")


def test_what_a_script_reads_is_a_dependency(commands):
    for name, command in commands.items():
        known = [*command.get("deps", []), *command.get("outputs", [])]
        for word in (word for line in command["script"] for word in shlex.split(line)):
            if word.startswith(("scripts/", "configs/", "corpus/", "assets/")) and name != "clean":
                assert any(word == path or word.startswith(f"{path}/") for path in known), word


def test_only_clean_has_no_outputs(commands):
    """A command without outputs runs again each time."""
    silent = {name for name, command in commands.items() if not command.get("outputs")}
    assert silent == {"clean"}


def test_readme_block_is_up_to_date(root, tmp_path):
    """After a change of project.yml: python -m spacy project document --output README.md --no-emoji"""
    for name in ("README.md", "project.yml"):
        shutil.copy(root / name, tmp_path)
    shutil.copytree(root / "assets" / "helpdesk", tmp_path / "assets" / "helpdesk")
    project_document(tmp_path, tmp_path / "README.md", no_emoji=True)
    assert (tmp_path / "README.md").read_text("utf8") == (root / "README.md").read_text("utf8")


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_links_lead_to_files(root, page):
    links = re.findall(r"\]\(([^)#:]+)\)", (root / page).read_text("utf8"))
    assert [link for link in links if not (root / link).exists()] == []


@pytest.fixture(scope="module")
def tiny_run(root, tmp_path_factory):
    """A copy of the project in which `tiny` ran, with two updates."""
    folder = tmp_path_factory.mktemp("tiny")
    shutil.copy(root / "project.yml", folder)
    ignore = shutil.ignore_patterns("snips", "my-data", "__pycache__")
    for name in ("assets", "configs", "scripts", "components"):
        shutil.copytree(root / name, folder / name, ignore=ignore)
    # As few messages as dev has; all of train are converted in test_helpdesk_data.py.
    shutil.copy(folder / "assets/helpdesk/dev.yml", folder / "assets/helpdesk/train.yml")
    command = [sys.executable, "-m", "spacy", "project", "run", "tiny", ".", "--vars.tiny_steps", "2"]
    env = {**os.environ, "HF_HUB_OFFLINE": "1"}
    run = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    return folder, run.stdout


def test_tiny_leaves_model_and_scores(tiny_run):
    folder, _ = tiny_run
    scores = json.loads((folder / "metrics" / "tiny.json").read_text("utf8"))
    assert scores["data"]["docs"] >= 200
    assert 0 <= scores["scores"]["utterance_acc"] <= 1
    assert len(scores["per_label"]["cats"]) >= 8
    assert (folder / "training" / "tiny" / "model-last" / "config.cfg").exists()


def test_tiny_again_skips_what_did_not_change(tiny_run):
    folder, _ = tiny_run
    command = [
        sys.executable,
        "-m",
        "spacy",
        "project",
        "run",
        "evaluate-tiny",
        ".",
        "--vars.tiny_steps",
        "2",
    ]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert "nothing changed" in run.stdout
