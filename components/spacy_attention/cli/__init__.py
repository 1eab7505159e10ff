"""The `python -m spacy attention` command group: one command per file, each a typer shell around a plain function."""

import typer
from spacy.cli._util import app

attention_cli = typer.Typer(
    name="attention",
    help="Convert data, train, evaluate and look into attention pipelines.",
    no_args_is_help=True,
)
app.add_typer(attention_cli, name="attention")

# Each command module adds its command to `attention_cli` when imported, so the imports stand below it.
from . import benchmark, convert, evaluate, train  # noqa: E402, F401
