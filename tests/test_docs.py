"""The pages in docs/ and the README: their Python runs, what they name exists, settings are explained."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import spacy

from spacy_attention.errors import Errors

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SKIP = re.compile(r"<!--\s*no-run\b:?\s*(.*?)\s*-->\s*\Z", re.DOTALL)
COMPONENT_PAGES = {
    "attention_backbone": "backbone.md",
    "attention_encoder": "encoder.md",
    "attention_textcat": "textcat.md",
    "attention_ner": "ner.md",
}


class Block(NamedTuple):
    """A fenced block: language, code, the line on which the code starts, and why it is not run."""

    language: str
    code: str
    line: int
    skip_reason: str | None


def find_blocks(text: str) -> list[Block]:
    """text (str): a Markdown page. RETURNS (list[Block]): its fenced blocks, in order."""
    blocks = []
    for found in BLOCK.finditer(text):
        before = text[: found.start()]
        skip = SKIP.search(before)
        blocks.append(Block(found[1], found[2], before.count("\n") + 2, skip and skip[1]))
    return blocks


def blocks_of(page: Path, language: str) -> list[Block]:
    return [block for block in find_blocks(page.read_text(encoding="utf8")) if block.language == language]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working directory that has the project's configs and sample data, as a clone has."""
    for name in ("configs", "assets"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", [page for page in PAGES if blocks_of(page, "python")], ids=lambda page: page.name)
def test_python_blocks_run(page, folder):
    namespace = {"__name__": "__main__"}
    for block in blocks_of(page, "python"):
        if block.skip_reason is None:
            # Empty lines in front, so that a traceback shows the line of the page.
            code = compile("\n" * (block.line - 1) + block.code, str(page), "exec")
            exec(code, namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_skipped_blocks_say_why(page):
    assert all(block.skip_reason != "" for block in find_blocks(page.read_text(encoding="utf8")))


def test_blocks_are_found_with_line_and_reason():
    page = "a\n```python\nx = 1\n```\n\n<!-- no-run: needs a GPU -->\n```python\ny = 2\n```\n```bash\nls\n```\n"
    assert find_blocks(page) == [
        Block("python", "x = 1\n", 3, None),
        Block("python", "y = 2\n", 8, "needs a GPU"),
        Block("bash", "ls\n", 11, None),
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page):
    text = BLOCK.sub("", page.read_text(encoding="utf8"))
    targets = [target.split("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in target]
    missing = [target for target in targets if target and not (page.parent / target).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_error_codes_exist(page):
    codes = re.findall(r"\bE[1-9]\d\d\b", page.read_text(encoding="utf8"))
    assert not [code for code in codes if not hasattr(Errors, code)]


@pytest.mark.parametrize(("factory", "page"), COMPONENT_PAGES.items())
def test_every_setting_is_explained(factory, page):
    """The block of the page is the default config, and each of its keys has a row in a table."""
    text = (ROOT / "docs" / page).read_text(encoding="utf8")
    rows = re.findall(r"^\| `([\w.]+)`", text, re.MULTILINE)
    default = spacy.blank("en").get_factory_meta(factory).default_config
    assert not {key for key in _settings(default) if key not in rows}
    shown = blocks_of(ROOT / "docs" / page, "ini")[0].code
    block = spacy.util.load_config_from_str("[components]\n" + shown)["components"][factory]
    assert block.pop("factory") == factory
    assert block == default


def _settings(config):
    for key, value in config.items():
        if isinstance(value, dict) and value:
            yield from _settings(value)
        elif not key.startswith("@"):
            yield key


def run_commands(page: Path, folder: Path, change) -> None:
    """Write the page's sample under each name that its commands read, then run them one by one."""
    script = "".join(block.code for block in blocks_of(page, "bash") if block.skip_reason is None)
    sample = blocks_of(page, "json")[0].code
    for name in sorted(set(re.findall(r"[\w./-]+\.jsonl", script))):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(sample, encoding="utf8")
    for command in script.replace("\\\n", " ").splitlines():
        if command.strip() and not command.lstrip().startswith("#"):
            path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
            done = subprocess.run(
                ["bash", "-c", change(command)],
                cwd=folder,
                env={**os.environ, "PATH": path},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


def short_training(command: str) -> str:
    if re.search(r"\bspacy train\b", command):
        return command + " --training.max_steps 2 --training.eval_frequency 2"
    return command


def without_wheel(command: str) -> str:
    return short_training(command).replace("--build wheel", "--build none")


YOUR_DATA = ROOT / "docs" / "your-data.md"


def test_your_data_page_runs_up_to_the_wheel(folder):
    run_commands(YOUR_DATA, folder, without_wheel)
    assert list(folder.glob("packages/*/setup.py"))
    assert list(folder.glob("metrics/*.json"))


@pytest.mark.slow
def test_your_data_page_leaves_a_wheel(folder):
    run_commands(YOUR_DATA, folder, short_training)
    (wheel,) = folder.glob("packages/*/dist/*.whl")
    assert wheel.stat().st_size > 1_000_000
