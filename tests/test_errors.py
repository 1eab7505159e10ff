"""Every text has one code, is used, and is filled with exactly the fields it names."""

import ast
import builtins
import re
import string
import warnings
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

import spacy_attention
from spacy_attention.errors import Errors, Warnings

PACKAGE = Path(spacy_attention.__file__).parent
GROUPS = (Errors, Warnings)
CODES = {f"{group.__name__}.{code}": getattr(group, code) for group in GROUPS for code in vars(group) if code[0] != "_"}


class Use(NamedTuple):
    where: str
    fields: set[str] | None  # None: without `.format()`


def read_uses() -> dict[str, list[Use]]:
    uses: dict[str, list[Use]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf8"))
        formatted = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
                formatted[id(node.func.value)] = {keyword.arg for keyword in node.keywords}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("Errors", "Warnings"):
                where = f"{path.relative_to(PACKAGE)}:{node.lineno}"
                uses.setdefault(f"{node.value.id}.{node.attr}", []).append(Use(where, formatted.get(id(node))))
    return uses


USES = read_uses()


def fields_of(text: str) -> set[str]:
    return {re.split(r"[.\[]", field)[0] for _, field, _, _ in string.Formatter().parse(text) if field is not None}


def test_there_are_codes():
    assert len(CODES) > 30


def test_codes_are_unique_in_the_source():
    tree = ast.parse((PACKAGE / "errors.py").read_text(encoding="utf8"))
    names = [target.id for node in ast.walk(tree) if isinstance(node, ast.Assign) for target in node.targets]  # type: ignore[attr-defined]
    codes = [name for name in names if re.fullmatch(r"[EW]\d+", name)]
    assert [code for code, n in Counter(codes).items() if n > 1] == []
    assert len(codes) == len(CODES)


@pytest.mark.parametrize("name", CODES)
def test_text_starts_with_its_code_and_says_enough(name):
    group, code = name.split(".")
    assert re.fullmatch({"Errors": r"E[1-6]\d\d", "Warnings": r"W[1-6]\d\d"}[group], code)
    assert CODES[name].startswith(f"[spacy-attention {code}] ")
    assert len(CODES[name]) > 50
    assert "" not in fields_of(CODES[name]), "fields are named"


def test_no_text_is_there_twice():
    texts = Counter(text.split("] ", 1)[1] for text in CODES.values())
    assert [text for text, n in texts.items() if n > 1] == []


@pytest.mark.parametrize("name", CODES)
def test_code_is_used(name):
    assert name in USES, "take the dead text out of errors.py"


@pytest.mark.parametrize("name", USES)
def test_fields_match_wherever_the_text_is_used(name):
    assert name in CODES, f"unknown code at {[use.where for use in USES[name]]}"
    for use in USES[name]:
        found = set() if use.fields is None else use.fields
        if found == {None}:
            continue  # filled from a dict
        assert found == fields_of(CODES[name]), use.where
        # Doubled braces turn into single ones only in `.format()`.
        assert use.fields is not None or "{{" not in CODES[name], use.where


def test_no_exception_of_ours_has_a_text_without_a_code():
    """Outside errors.py nothing is raised or warned about with a text written in place."""
    found = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
            call = node.exc if isinstance(node, ast.Raise) else node
            is_warning = isinstance(call, ast.Call) and ast.unparse(call.func) == "warnings.warn"
            if not isinstance(call, ast.Call) or not (isinstance(node, ast.Raise) or is_warning):
                continue
            # A reason that another text quotes is raised as a private exception or handed to a helper.
            kind = ast.unparse(call.func)
            if not is_warning and (kind == "KeyError" or not hasattr(builtins, kind)):
                continue
            for argument in call.args:
                if isinstance(argument, ast.JoinedStr) or (
                    isinstance(argument, ast.Constant) and isinstance(argument.value, str)
                ):
                    found.append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert found == []


def test_warnings_of_the_package_are_errors_here():
    """setup.cfg says so; by module name, so that the warnings of other libraries are theirs."""
    with pytest.raises(UserWarning):
        warnings.warn_explicit("x", UserWarning, "x.py", 1, module="spacy_attention.layers.shim")
