"""`python -m spacy attention convert`: source files to `.spacy`, with an account of every entity."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, cast

import typer
from wasabi import Printer, msg

from ..convert.docs import load_tokenizer
from ..convert.formats import FORMATS
from ..convert.inspect import inspect_file, print_summary
from ..convert.output import problems_path
from ..convert.run import ConvertResult, convert_files
from ..convert.types import OnMisaligned
from ..errors import Errors
from ..evaluation.report import write_json
from . import attention_cli


@attention_cli.command("convert")
def convert_cli(
    inputs: Annotated[list[Path], typer.Argument(help="Source files; with --inspect also .spacy files")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The .spacy file to write; with --inspect a .json file")
    ] = None,
    format: Annotated[str, typer.Option(help=f"auto, {', '.join(FORMATS)}")] = "auto",
    lang: Annotated[str, typer.Option(help="Language of the tokenizer")] = "en",
    tokenizer: Annotated[str | None, typer.Option(help="Pipeline whose tokenizer is used instead")] = None,
    on_misaligned: Annotated[str, typer.Option(help="Entities that cut a token: expand, trim, drop or error")] = "expand",
    hold_out: Annotated[
        list[str] | None,
        typer.Option(help="N:FILE.spacy: N documents, stratified by class, go there; may be repeated"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of --hold-out")] = 0,
    inspect: Annotated[bool, typer.Option("--inspect", help="Convert nothing, print a summary of each file")] = False,
) -> None:
    """Convert annotated texts to .spacy files; what could not be kept is listed beside them."""
    try:
        if inspect:
            inspect_files(inputs, output, format=format, lang=lang, tokenizer=tokenizer)
            return
        convert(
            inputs,
            output,
            format=format,
            lang=lang,
            tokenizer=tokenizer,
            on_misaligned=on_misaligned,
            hold_out=hold_out or [],
            seed=seed,
        )
    except (ValueError, OSError) as error:
        msg.fail(str(error), exits=1)


def convert(
    inputs: list[Path],
    output: Path | None,
    *,
    format: str = "auto",
    lang: str = "en",
    tokenizer: str | None = None,
    on_misaligned: str = "expand",
    hold_out: Sequence[str] = (),
    seed: int = 0,
    silent: bool = False,
) -> ConvertResult:
    """Convert source files and print the account.

    inputs (list[Path]): source files.
    output (Path | None): the `.spacy` file.
    format (str): a format's name, or `auto`.
    lang (str): language of the tokenizer.
    tokenizer (str | None): pipeline whose tokenizer is used instead.
    on_misaligned (str): `expand`, `trim`, `drop` or `error`.
    hold_out (Sequence[str]): each `N:FILE.spacy`, see `convert_files`.
    seed (int): of the choice of held-out documents.
    silent (bool): print nothing.
    RETURNS (ConvertResult): counts and labels.
    RAISES (ValueError): E4xx; nothing is written then.
    """
    if output is None:
        raise ValueError(Errors.E416)
    result = convert_files(
        inputs,
        output,
        format=format,
        lang=lang,
        tokenizer=tokenizer,
        on_misaligned=cast(OnMisaligned, on_misaligned),
        hold_out=[parse_hold_out(value) for value in hold_out],
        seed=seed,
        progress=not silent,
    )
    print_result(result, Printer(no_print=silent))
    return result


def inspect_files(
    inputs: list[Path],
    output: Path | None = None,
    *,
    format: str = "auto",
    lang: str = "en",
    tokenizer: str | None = None,
    silent: bool = False,
) -> list[dict]:
    """Print a summary of each file.

    inputs (list[Path]): source files and `.spacy` files.
    output (Path | None): JSON file for the summaries.
    format (str): format of the source files, or `auto`.
    lang (str): language of the tokenizer.
    tokenizer (str | None): pipeline whose tokenizer is used instead.
    silent (bool): print nothing.
    RETURNS (list[dict]): the summaries, see `inspect_file`.
    RAISES (ValueError): E417 for an output that is no `.json` file, and what `inspect_file` raises.
    """
    if output is not None and output.suffix != ".json":
        raise ValueError(Errors.E417.format(path=output, suffix=output.suffix))
    nlp = load_tokenizer(lang, tokenizer)
    summaries = [inspect_file(path, nlp, format=format, progress=not silent) for path in inputs]
    for summary in summaries:
        print_summary(summary, Printer(no_print=silent))
    if output is not None:
        write_json(output, summaries)
    return summaries


def parse_hold_out(value: str) -> tuple[int, Path]:
    """Read one value of the option `--hold-out`.

    value (str): `N:FILE.spacy`.
    RETURNS (tuple[int, Path]): number of documents and file.
    RAISES (ValueError): E411 for anything else.
    """
    number, colon, path = value.partition(":")
    if not colon or not path or not number.isdecimal():
        raise ValueError(Errors.E411.format(found=value))
    return int(number), Path(path)


def print_result(result: ConvertResult, printer: Printer) -> None:
    """Print what was read and written.

    result (ConvertResult): what `convert_files` returns.
    printer (Printer): where to.
    """
    formats = Counter(result.formats.values())
    printer.info("Read " + ", ".join(f"{n} {name} file(s)" for name, n in formats.items()))
    for path, account in result.accounts.items():
        counts = [
            ("documents", account.docs),
            ("spans in", account.spans_in),
            ("spans out", account.spans_out),
        ]
        counts += [(f"{kind}, {action}", n) for (kind, action), n in sorted(account.counts().items())]
        printer.table(counts, header=(str(path), "count"), divider=True, aligns=("l", "r"))
        if account.problems:
            printer.warn(f"{len(account.problems)} problems listed in {problems_path(path)}")
    printer.good(f"{result.docs} documents, {len(result.labels)} classes: {', '.join(result.labels)}")
