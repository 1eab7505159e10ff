"""From source files to `.spacy` files with their account."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from spacy.language import Language
from tqdm import tqdm

from ..errors import Errors
from .account import Account
from .docs import Entry, fill_cats, load_tokenizer, make_entries
from .formats import find_format
from .output import pack, problems_path, write_together
from .split import stratified_split
from .types import OnMisaligned, Problem


@dataclass(frozen=True)
class ConvertResult:
    """What a run read and wrote.

    formats (dict[str, str]): format by input file.
    labels (list[str]): class labels of the run.
    accounts (dict[Path, Account]): the account of each output file.
    """

    formats: dict[str, str]
    labels: list[str]
    accounts: dict[Path, Account]

    @property
    def docs(self) -> int:
        """RETURNS (int): documents written."""
        return sum(account.docs for account in self.accounts.values())

    @property
    def spans_in(self) -> int:
        """RETURNS (int): entities in the sources."""
        return sum(account.spans_in for account in self.accounts.values())

    @property
    def spans_out(self) -> int:
        """RETURNS (int): entities written."""
        return sum(account.spans_out for account in self.accounts.values())

    @property
    def problems(self) -> Counter[tuple[str, str]]:
        """RETURNS (Counter): number of problems by kind and action."""
        counts = (account.counts() for account in self.accounts.values())
        return sum(counts, Counter())


@dataclass
class Batch:
    """The documents of all inputs.

    entries (list[Entry]): in the order of the inputs.
    problems (list[Problem]): those that belong to no document.
    formats (dict[str, str]): format by input file.
    """

    entries: list[Entry]
    problems: list[Problem]
    formats: dict[str, str]


def convert_files(
    inputs: Sequence[Path],
    output: Path,
    *,
    format: str = "auto",
    lang: str = "en",
    tokenizer: str | None = None,
    on_misaligned: OnMisaligned = "expand",
    hold_out: Sequence[tuple[int, Path]] = (),
    seed: int = 0,
    progress: bool = True,
) -> ConvertResult:
    """Convert source files to a `.spacy` file with its account beside it.

    inputs (Sequence[Path]): source files, in the order wanted.
    output (Path): the `.spacy` file.
    format (str): a format's name, or `auto`.
    lang (str): language of the tokenizer.
    tokenizer (str | None): pipeline whose tokenizer is used instead.
    on_misaligned (OnMisaligned): what to do with entities that cut a token.
    hold_out (Sequence[tuple[int, Path]]): how many documents go to which other file, each time stratified
        by class and taken from what is left.
    seed (int): of the choice of held-out documents.
    progress (bool): show a progress bar.
    RETURNS (ConvertResult): counts and labels.
    RAISES (ValueError): E4xx; nothing is written then.
    """
    _check_options(inputs, output, on_misaligned, hold_out)
    nlp = load_tokenizer(lang, tokenizer)
    batch = read_inputs(inputs, nlp, format=format, on_misaligned=on_misaligned, progress=progress)
    labels = fill_cats(batch.entries)
    parts = _parts(batch.entries, output, hold_out, seed)
    accounts, files = {}, {}
    for path, entries in parts.items():
        account = _account(entries, batch.problems if path == output else [])
        account.check(path)
        accounts[path] = account
        files[path] = pack([entry.doc for entry in entries])
        files[problems_path(path)] = account.to_jsonl().encode("utf-8")
    write_together(files)
    return ConvertResult(batch.formats, labels, accounts)


def read_inputs(
    inputs: Sequence[Path],
    nlp: Language,
    *,
    format: str = "auto",
    on_misaligned: OnMisaligned = "expand",
    progress: bool = True,
) -> Batch:
    """Read source files into documents.

    inputs (Sequence[Path]): source files.
    nlp (Language): its tokenizer makes the tokens.
    format (str): a format's name, or `auto`.
    on_misaligned (OnMisaligned): what to do with entities that cut a token.
    progress (bool): show a progress bar.
    RETURNS (Batch): documents without classes (see `fill_cats`) and problems.
    RAISES (ValueError): E402 for an unknown format, E403 for an input without documents, and as the readers.
    """
    batch = Batch([], [], {})
    with tqdm(desc="Converting", unit=" docs", disable=not progress) as bar:
        for path in inputs:
            name, format_ = find_format(path, format)
            batch.formats[str(path)] = name
            start = len(batch.entries)
            loose = []
            for item in make_entries(path, format_.read(path), nlp, on_misaligned):
                if isinstance(item, Problem):
                    loose.append(item)
                else:
                    batch.entries.append(item)
                    bar.update()
            if len(batch.entries) == start:
                message = Errors.E403.format(path=path, format=name, description=format_.description)
                raise ValueError(message)
            batch.problems += _assign(loose, batch.entries[start:])
    return batch


def _check_options(inputs: Sequence[Path], output: Path, on_misaligned: str, hold_out: Sequence[tuple[int, Path]]) -> None:
    if not inputs:
        raise ValueError(Errors.E416)
    for path in [output, *(path for _, path in hold_out)]:
        if path.suffix != ".spacy":
            raise ValueError(Errors.E410.format(path=path, suffix=path.suffix))
    if on_misaligned not in get_args(OnMisaligned):
        allowed = ", ".join(get_args(OnMisaligned))
        raise ValueError(Errors.E409.format(option="--on-misaligned", allowed=allowed, found=on_misaligned))
    taken = {output.resolve()}
    for n, path in hold_out:
        if n < 1 or path.resolve() in taken:
            raise ValueError(Errors.E411.format(found=f"{n}:{path}"))
        taken.add(path.resolve())


def _assign(problems: list[Problem], entries: list[Entry]) -> list[Problem]:
    """Give repaired lines to the document they belong to; return those that belong to none."""
    lines = [entry.record.line or 0 for entry in entries]
    loose = []
    for problem in problems:
        position = bisect_right(lines, problem.line or 0) - 1
        if problem.kind == "bad_encoding" and position >= 0:
            entries[position].problems.append(problem)
        else:
            loose.append(problem)
    return loose


def _parts(entries: list[Entry], output: Path, hold_out: Sequence[tuple[int, Path]], seed: int) -> dict[Path, list[Entry]]:
    parts = {output: entries}
    for n, path in hold_out:
        rest = parts[output]
        kept, held_out = stratified_split([_stratum(entry) for entry in rest], n, seed)
        parts[output], parts[path] = [rest[i] for i in kept], [rest[i] for i in held_out]
    return parts


def _stratum(entry: Entry) -> str:
    return "\n".join(sorted(label for label, value in entry.doc.cats.items() if value >= 0.5))


def _account(entries: list[Entry], problems: list[Problem]) -> Account:
    account = Account(docs=len(entries), problems=list(problems))
    for i, entry in enumerate(entries):
        account.spans_in += entry.record.n_spans
        account.spans_out += len(entry.doc.ents)
        account.problems += [replace(problem, doc=i) for problem in entry.problems]
    return account
