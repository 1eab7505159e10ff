"""Cuts a file of columns into sentences of rows, and finds the column of the tags."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .tags import is_tag

TOKEN_COLUMN = 0
TAG_COLUMN = -1  # the last but one if the last says whether a space follows
MIN_COLUMNS, MAX_COLUMNS = 2, 12

_DOCUMENT = "-DOCSTART-"
_COMMENT = ("# ", "#\t")
_LINE_END = re.compile(r"\r\n|\r|\n")
_BLANKS = re.compile(r"[ \t]+")
_SPACING = ({"+"}, {"+", "-"}, {"_", "SpaceAfter=No"})  # what a column holds that says whether a space follows
_NO_SPACE = ("-", "SpaceAfter=No")


@dataclass(frozen=True)
class Row:
    """A token with its columns.

    line (int): line in the file, from 1.
    cells (list[str]): the columns.
    """

    line: int
    cells: list[str]

    @property
    def token(self) -> str:
        """RETURNS (str): the token."""
        return self.cells[TOKEN_COLUMN]


@dataclass(frozen=True)
class Table:
    """The rows of a file.

    sentences (list[list[Row]]): none of them empty.
    width (int): columns of the first row.
    tag_column (int): where the tag stands, counted from the end (-1 is the last).
    """

    sentences: list[list[Row]]
    width: int
    tag_column: int

    @property
    def rows(self) -> list[Row]:
        """RETURNS (list[Row]): those of all sentences."""
        return [row for rows in self.sentences for row in rows]

    def tags(self, rows: list[Row]) -> list[str]:
        """Give the tags of a sentence.

        rows (list[Row]): the sentence.
        RETURNS (list[str]): the cells of the tag column.
        """
        return [row.cells[self.tag_column] for row in rows]

    def spaces(self, rows: list[Row]) -> list[bool] | None:
        """Give the spaces of a sentence.

        rows (list[Row]): the sentence.
        RETURNS (list[bool] | None): whether one follows each token; None if the file does not say.
        """
        if self.tag_column == TAG_COLUMN:
            return None
        return [row.cells[-1] not in _NO_SPACE for row in rows]

    def unread_columns(self) -> list[str]:
        """RETURNS (list[str]): names of the columns that hold something and are not read, such as `column 2`."""
        unread = range(TOKEN_COLUMN + 1, self.width + self.tag_column)
        return [f"column {i + 1}" for i in unread if self._values(i) != {"_"}]

    def fault(self) -> tuple[Row, str] | None:
        """Find the first thing that is not as it should be.

        RETURNS (tuple[Row, str] | None): a row and what was expected of it; None for a sound file.
        """
        for row in self.rows:
            if expected := self.fault_of(row):
                return row, expected
        if self._is_numbered():
            return self.rows[0], "the token in the first column, not its number"
        others = range(TOKEN_COLUMN + 1, self.width)
        if any(self._holds_entities(i) for i in others) and not self._holds_entities(self.tag_column):
            return self.rows[0], "entities in the last column of tags (it has only O, another one has entities)"
        return None

    def fault_of(self, row: Row) -> str | None:
        """Judge a row by itself.

        row (Row): any row.
        RETURNS (str | None): what was expected instead; None if it is as it should be.
        """
        if not MIN_COLUMNS <= len(row.cells) <= MAX_COLUMNS:
            return f"{MIN_COLUMNS} to {MAX_COLUMNS} columns (cut at spaces unless every line has a tab)"
        if len(row.cells) != self.width:
            return f"{self.width} columns as on the first line"
        if not is_tag(row.cells[self.tag_column]):
            return "a tag like O, B-LABEL or I-LABEL in the last column"
        return None

    def _values(self, column: int) -> set[str]:
        return {row.cells[column] for row in self.rows}

    def _holds_entities(self, column: int) -> bool:
        values = self._values(column)
        return values != {"O"} and all(is_tag(value) for value in values)

    def _is_numbered(self) -> bool:
        """Whether the first column counts the tokens of each sentence, as in CoNLL-U."""
        counted = all(row.token == str(i) for rows in self.sentences for i, row in enumerate(rows, start=1))
        return counted and any(len(rows) > 1 for rows in self.sentences)


def parse_table(text: str) -> Table:
    """Cut a text into sentences, rows and columns; nothing is judged yet.

    Sentences end at lines without content and at `-DOCSTART-`. Lines that begin with `# ` are comments, unless they
    have as many columns as the other rows and a tag in the same place.

    text (str): content of a file.
    RETURNS (Table): its rows.
    """
    lines = _LINE_END.split(text)
    split = _splitter(lines)
    sentences = list(_sentences(lines, split))
    rows = [row for rows in sentences for row in rows]
    comments = {row.line for row in rows if lines[row.line - 1].startswith(_COMMENT)}
    sure = [row for row in rows if row.line not in comments] or rows
    width = len(sure[0].cells) if sure else 0
    table = Table([], width, _tag_column(sure, width))
    for rows in sentences:
        if kept := [row for row in rows if row.line not in comments or table.fault_of(row) is None]:
            table.sentences.append(kept)
    return table


def _splitter(lines: list[str]) -> Callable[[str], list[str]]:
    """How a row is cut: at tabs if every token line has one, else at runs of spaces and tabs."""
    rows = [line for line in lines if line.strip() and not line.startswith((_DOCUMENT, *_COMMENT))]
    if all("\t" in line.strip(" \t") for line in rows):
        return lambda line: [cell.strip(" ") for cell in line.strip(" \t").split("\t")]
    return lambda line: _BLANKS.split(line.strip(" \t"))


def _sentences(lines: list[str], split: Callable[[str], list[str]]) -> Iterator[list[Row]]:
    rows: list[Row] = []
    for number, line in enumerate([*lines, ""], start=1):
        if line.strip() and not line.startswith(_DOCUMENT):
            rows.append(Row(number, split(line)))
        elif rows:
            yield rows
            rows = []


def _tag_column(rows: list[Row], width: int) -> int:
    has_spacing = width > MIN_COLUMNS and {row.cells[-1] for row in rows} in _SPACING
    return TAG_COLUMN - 1 if has_spacing else TAG_COLUMN
