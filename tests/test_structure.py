"""Which part may import which, what a bare import costs, and what is registered."""

import ast
import configparser
import json
import subprocess
import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest
import spacy

import spacy_attention

PACKAGE = Path(spacy_attention.__file__).parent
ROOT = Path(__file__).parent.parent
TESTS = Path(__file__).parent

BASE = {"about", "errors", "types"}
# Parts of the package that a part may import besides itself.
MAY_IMPORT = {
    "": {"about"},
    "about": set(),
    "errors": set(),
    "types": {"errors"},
    "checkpoints": BASE,
    "nn": BASE,
    "layers": BASE | {"checkpoints", "nn"},
    "models": BASE | {"checkpoints", "nn", "layers"},
    "pipeline": BASE | {"checkpoints", "nn", "layers", "models"},
    "training": BASE | {"checkpoints", "nn"},
    "convert": BASE | {"checkpoints", "nn"},
    "evaluation": BASE | {"checkpoints", "nn"},
}
MAY_IMPORT["cli"] = set(MAY_IMPORT) - {""}
# Libraries that a part must not know.
FORBIDDEN = {
    "": {"torch", "spacy", "thinc", "transformers", "numpy"},
    "about": {"torch", "spacy", "thinc", "transformers", "numpy"},
    "errors": {"torch", "spacy", "thinc", "transformers", "numpy"},
    "types": {"torch", "spacy", "transformers"},
    "checkpoints": {"torch", "spacy", "thinc", "transformers"},
    "nn": {"spacy", "thinc", "spacy_transformers", "transformers"},
}


def imports_of(source: str, module: list[str]) -> set[str]:
    """Full names of all that a module imports, wherever the statement stands.

    source (str): text of the module. module (list[str]): its package, for relative imports.
    """
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = module[: len(module) - node.level + 1] if node.level else []
            start = ".".join([*base, *([node.module] if node.module else [])])
            # `from . import x` may import a module x.
            found |= {f"{start}.{alias.name}" for alias in node.names}
    return found


def part_of(path: Path) -> str:
    """The first folder below the package, or the module itself; empty for the package's `__init__`."""
    first = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


def wrong_imports(path: Path, source: str) -> list[str]:
    part = part_of(path)
    package = ["spacy_attention", *path.relative_to(PACKAGE).parent.parts]
    wrong = []
    for name in sorted(imports_of(source, package)):
        parts = name.split(".")
        if parts[0] == "spacy_attention":
            other = parts[1] if len(parts) > 1 else ""
            if other not in MAY_IMPORT[part] | {part} | {"__version__"}:
                wrong.append(name)
        elif parts[0] in FORBIDDEN.get(part, set()) | {"tests"}:
            wrong.append(name)
    return wrong


MODULES = sorted(PACKAGE.rglob("*.py"))


def test_every_part_has_its_rule():
    assert {part_of(path) for path in MODULES} == set(MAY_IMPORT)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_arrows_point_one_way(path):
    assert wrong_imports(path, path.read_text(encoding="utf8")) == []


@pytest.mark.parametrize(
    ("module", "source", "wrong"),
    [
        ("nn/crf.py", "import spacy.tokens", "spacy.tokens"),
        ("nn/crf.py", "from ..layers.shim import TorchShim", "spacy_attention.layers.shim.TorchShim"),
        ("nn/crf.py", "def f():\n    from .. import layers", "spacy_attention.layers"),
        ("models/ner.py", "from ..pipeline import ner", "spacy_attention.pipeline.ner"),
        ("layers/shim.py", "from spacy_attention.models.ner import x", "spacy_attention.models.ner.x"),
        ("training/optimizer.py", "from ..layers import shim", "spacy_attention.layers.shim"),
        ("pipeline/ner.py", "from tests.helpers import x", "tests.helpers.x"),
        ("pipeline/ner.py", "from ..cli import x", "spacy_attention.cli.x"),
        ("__init__.py", "import torch", "torch"),
    ],
)
def test_a_wrong_arrow_is_found(module, source, wrong):
    assert wrong_imports(PACKAGE / module, source) == [wrong]


def test_a_right_arrow_passes():
    assert wrong_imports(PACKAGE / "models/ner.py", "import torch\nfrom ..nn.heads import x\nfrom .head import y") == []


@pytest.mark.parametrize("path", sorted((ROOT / "scripts").glob("*.py")), ids=lambda path: path.name)
def test_scripts_do_not_import_tests(path):
    names = imports_of(path.read_text(encoding="utf8"), ["scripts"])
    assert not {name for name in names if name.split(".")[0] in ("tests", "pytest")}


def test_importing_the_package_is_light():
    heavy = ["torch", "spacy", "thinc", "transformers", "numpy"]
    code = f"import sys, spacy_attention; print(*(name for name in {heavy} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_no_import_cycles():
    """Each module can be the first one to be imported."""
    graph = {}
    for path in MODULES:
        relative = path.relative_to(PACKAGE.parent).with_suffix("")
        name = ".".join(relative.parts).removesuffix(".__init__")
        package = list(relative.parts[:-1])
        top_level = "\n".join(
            ast.unparse(node) for node in ast.parse(path.read_text(encoding="utf8")).body if not isinstance(node, ast.If)
        )
        graph[name] = imports_of(top_level, package)
    edges = {
        name: {other for other in graph if other != name and any(i == other or i.startswith(other + ".") for i in imported)}
        for name, imported in graph.items()
    }
    # A package's own `__init__` is reached by every import below it; only what it imports itself counts.
    edges = {name: {o for o in others if not name.startswith(o + ".")} for name, others in edges.items()}
    while leaves := {name for name, others in edges.items() if not others & edges.keys()}:
        edges = {name: others for name, others in edges.items() if name not in leaves}
    assert edges == {}


def stored() -> dict[str, list[str]]:
    return json.loads((TESTS / "registry_contents.json").read_text(encoding="utf8"))


def declared() -> list[EntryPoint]:
    config = configparser.ConfigParser()
    config.optionxform = str  # type: ignore[assignment,method-assign]
    config.read(ROOT / "setup.cfg", encoding="utf8")
    points = []
    for group, text in config["options.entry_points"].items():
        for line in text.strip().splitlines():
            name, _, value = line.partition("=")
            points.append(EntryPoint(name=name.strip(), value=value.strip(), group=group))
    return points


def names_by_group(points) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for point in points:
        groups.setdefault(point.group, []).append(point.name)
    return {group: sorted(names) for group, names in groups.items()}


def test_entry_points_are_those_of_the_stored_list():
    """A new name goes into tests/registry_contents.json; one that is there never leaves it: its configs would break."""
    assert names_by_group(declared()) == stored()


def test_installed_entry_points_are_those_of_setup_cfg():
    """If this fails after a change of setup.cfg: `python -m pip install -e .` again."""
    installed = [p for group in stored() for p in entry_points(group=group) if p.value.startswith("spacy_attention.")]
    assert names_by_group(installed) == names_by_group(declared())


@pytest.mark.parametrize("point", declared(), ids=lambda point: point.name)
def test_entry_point_resolves(point):
    assert callable(point.load())


@pytest.mark.parametrize("name", stored()["spacy_architectures"])
def test_architectures_are_in_the_registry(name):
    assert spacy.registry.has("architectures", name)


@pytest.mark.parametrize("name", stored()["spacy_factories"])
def test_factory_is_found_and_has_its_metadata(name):
    nlp = spacy.blank("en")
    nlp.add_pipe(name)
    assert nlp.get_factory_meta(name).factory == name


def test_registered_names_follow_the_convention():
    for group, names in stored().items():
        for name in names:
            if group == "spacy_architectures":
                assert name.startswith("spacy-attention.")
                assert name.split(".")[1][0].isupper()
            if group == "spacy_scorers":
                assert name.split(".")[1].islower()
