"""Build two wheels into one folder: a trained pipeline, and the plugin that it needs.

The pipeline's wheel is `spacy package`'s, with the licence of the backbone's weights in it. Both are built in
a temporary folder and put in place when they are whole.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import spacy
import srsly
from spacy.cli.package import package

from spacy_attention.checkpoints import PACKAGED, find_checkpoint

SCRIPTS = Path(__file__).resolve().parent
ROOT = SCRIPTS.parent
PLUGIN_SOURCES = ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "components")
LICENCE_TEXTS = SCRIPTS / "licences"


def main() -> None:
    """Build what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pipeline", type=Path, help="folder that `spacy train` wrote")
    parser.add_argument("output", type=Path, help="folder for the wheels")
    parser.add_argument("--name", required=True, help="name of the package, without the language")
    parser.add_argument("--version", required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        wheels = [build_pipeline(args.pipeline, Path(scratch), name=args.name, version=args.version)]
        wheels.append(build_plugin(Path(scratch)))
        for wheel in wheels:
            print(f"Built {put_in_place(wheel, args.output)}")


def build_pipeline(pipeline: Path, scratch: Path, *, name: str, version: str) -> Path:
    """Build the wheel of a trained pipeline.

    pipeline (Path): A trained pipeline; it stays as it is.
    scratch (Path): An empty folder to work in.
    name (str): Name of the package, without the language.
    version (str): Its version.
    RETURNS (Path): The wheel.
    """
    source, target = scratch / "pipeline", scratch / "packaged"
    shutil.copytree(pipeline, source)
    target.mkdir()
    (source / "LICENSES_SOURCES").write_text(licence_notice(source), "utf8")
    package(
        source,
        target,
        name=name,
        version=version,
        code_paths=[SCRIPTS / "need_spacy_attention.py"],
        create_sdist=False,
        create_wheel=True,
        require_parent=True,
        silent=False,
    )
    return _only_wheel(target)


def build_plugin(scratch: Path) -> Path:
    """Build the plugin's wheel from a copy, so that nothing old in a `build` folder gets in.

    scratch (Path): A folder to work in.
    RETURNS (Path): The wheel.
    """
    source, target = scratch / "plugin", scratch / "plugin-wheel"
    source.mkdir()
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in PLUGIN_SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=ignore)
        else:
            shutil.copy(ROOT / name, source / name)
    subprocess.run([sys.executable, "-m", "build", "--wheel", "--outdir", str(target), str(source)], check=True)
    return _only_wheel(target)


def licence_notice(pipeline: Path) -> str:
    """Say where the weights inside a pipeline come from, and under which licence.

    pipeline (Path): A trained pipeline's folder.
    RETURNS (str): The text of `LICENSES_SOURCES`: a section per checkpoint, with its licence.
    """
    names = checkpoint_names(pipeline)
    if not names:
        return "The weights of this pipeline were trained from scratch.\n"
    return "\n\n".join(_checkpoint_notice(name) for name in names)


def checkpoint_names(pipeline: Path) -> list[str]:
    """List the checkpoints that a pipeline's components started from.

    pipeline (Path): A trained pipeline's folder.
    RETURNS (list[str]): Names as in the config, sorted.
    """
    config = spacy.util.load_config(pipeline / "config.cfg")
    models = [component.get("model", {}) for component in config["components"].values()]
    return sorted({model["name"] for model in models if isinstance(model.get("name"), str)})


def _checkpoint_notice(name: str) -> str:
    licence = checkpoint_licence(name)
    texts = [text for text in LICENCE_TEXTS.glob("*.txt") if text.stem.lower() == licence.lower()]
    body = texts[0].read_text("utf8") if texts else "See the source for the text of the licence.\n"
    source = "a local folder" if Path(name).exists() else f"https://huggingface.co/{name}"
    return (
        f"Weights fine-tuned from: {Path(name).name if Path(name).exists() else name}\n"
        f"Source: {source}\n"
        f"Licence of these weights: {licence}\n"
        f"Changes: fine-tuned on further data by this pipeline's author.\n\n{body}"
    )


def checkpoint_licence(name: str) -> str:
    """Find the licence of a checkpoint's weights.

    name (str): A checkpoint's name or folder.
    RETURNS (str): An SPDX name, from our list or the model card's head; else a sentence that it is unknown.
    """
    if name in PACKAGED:
        return PACKAGED[name].licence
    card = Path(find_checkpoint(name)) / "README.md"
    if card.exists():
        _, _, rest = card.read_text("utf8").partition("---\n")
        head, found, _ = rest.partition("\n---")
        fields = srsly.yaml_loads(head) if found else None
        if isinstance(fields, dict) and "license" in fields:
            return str(fields["license"])
    return "unknown to this project; look at the source before you pass the weights on"


def put_in_place(wheel: Path, output: Path) -> Path:
    """Move a wheel into the output folder, whole or not at all, in the place of an older one of its name.

    wheel (Path): The wheel.
    output (Path): The folder, which is made.
    RETURNS (Path): Where it lies now.
    """
    output.mkdir(parents=True, exist_ok=True)
    part = output / f"{wheel.name}.part"
    shutil.copy(wheel, part)
    return part.replace(output / wheel.name)


def _only_wheel(folder: Path) -> Path:
    (wheel,) = folder.rglob("*.whl")
    return wheel


if __name__ == "__main__":
    main()
