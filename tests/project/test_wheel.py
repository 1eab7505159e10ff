"""Build the wheel of a tiny pipeline, install it in an empty environment, compare predictions."""

import subprocess
import sys

import pytest


@pytest.mark.slow
def test_installed_wheel_predicts_the_same(root, tmp_path):
    def run(*args):
        subprocess.run([sys.executable, *map(str, args)], cwd=root, check=True)

    helpdesk, corpus, training = root / "assets" / "helpdesk", tmp_path / "corpus", tmp_path / "training"
    for split in ("train", "dev", "test"):
        source, output = helpdesk / f"{split}.yml", corpus / f"{split}.spacy"
        run("-m", "spacy", "attention", "convert", source, "-o", output)
    paths = ["--paths.train", corpus / "train.spacy", "--paths.dev", corpus / "dev.spacy"]
    steps = ["--training.max_steps", "5"]
    run("-m", "spacy", "train", "configs/tiny/default.cfg", "--output", training, *paths, *steps)
    model, packages = training / "model-last", tmp_path / "packages"
    run("scripts/package.py", model, packages, "--name", "tiny_check", "--version", "0.0.1")
    wheel = packages / "en_tiny_check-0.0.1-py3-none-any.whl"
    run("scripts/check_wheel.py", wheel, model, corpus / "test.spacy")
