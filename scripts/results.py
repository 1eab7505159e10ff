"""Make docs/results.md and docs/performance.md from the small files in docs/results/, and such a file from reports of `evaluate`.

    python scripts/results.py                                     write both pages
    python scripts/results.py --check                             fail when a page is not up to date
    python scripts/results.py --add docs/results/snips.json --title "SNIPS test" --command "..." \\
        --row "MiniLM, 3 seeds=metrics/snips-0.json,metrics/snips-1.json,metrics/snips-2.json" \\
        --column "Intent accuracy=cats_micro_f" --column "Slot F1=ents_f" --column "Whole=utterance_acc"
"""

import argparse
import datetime
import json
import statistics
import sys
from pathlib import Path
from typing import Any, NamedTuple

from spacy_attention.evaluation.machine import describe_machine, machine_line
from spacy_attention.evaluation.report import write_json

SOURCE = Path("docs/results")
KEYS = ("title", "command", "date", "machine", "versions", "columns", "rows", "notes")
RESULTS_INTRO = """# Results

Made by `python -m spacy project run results` from the files in [results/](results/); none is typed by hand.
Figures are shares in percent where a column does not say otherwise; ± is the standard deviation over seeds.
"""
PERFORMANCE_INTRO = """# Performance

Made by `python -m spacy project run results` from the files performance-*.json in [results/](results/), which the benchmarks in
`scripts/` write; none is typed by hand. They hold the seconds of every round as well.

All rows of a table were timed in turns within one process, on the same texts and from the same weights. Intervals are 95 %
bootstrap intervals of the median over rounds. Peak RSS (while the texts go through, loading not counted) and load time come
from a process of its own for each pipeline. Measure pipelines of your own with [benchmark](benchmark.md).
"""


class Page(NamedTuple):
    """A page: its file, its beginning, and whether it shows the files of benchmarks, or all others."""

    target: Path
    intro: str
    performance: bool


PAGES = (
    Page(Path("docs/results.md"), RESULTS_INTRO, performance=False),
    Page(Path("docs/performance.md"), PERFORMANCE_INTRO, performance=True),
)


def main() -> int:
    """Do what the command line asks for.

    RETURNS (int): Exit status, 1 when `--check` finds an outdated page.
    """
    args = _parse_args()
    if args.add:
        rows = [_split(row) for row in args.row]
        columns = dict(_split(column) for column in args.column)
        table = [make_row(name, files.split(","), columns) for name, files in rows]
        versions = _read_json(Path(rows[0][1].split(",")[0]))["versions"]
        write_json(args.add, make_result(args, list(columns), table, versions))
        print(f"Wrote {args.add}")
    made = {page.target: make_page(page.intro, result_files(performance=page.performance)) for page in PAGES}
    if args.check:
        return max(0 if path.exists() and path.read_text("utf8") == text else _complain(path) for path, text in made.items())
    for path, text in made.items():
        path.write_text(text, "utf8")
        print(f"Wrote {path}")
    return 0


def result_files(*, performance: bool) -> list[Path]:
    """Find the files of one page.

    performance (bool): whether those of benchmarks, or all others.
    RETURNS (list[Path]): in the order of the page.
    """
    return [file for file in sorted(SOURCE.glob("*.json")) if file.name.startswith("performance-") == performance]


def make_row(name: str, files: list[str], columns: dict[str, str]) -> list[str]:
    """Average reports of several seeds into one row.

    name (str): First cell.
    files (list[str]): JSON files of `evaluate`, one per seed.
    columns (dict[str, str]): Title -> key in `scores`.
    RETURNS (list[str]): Cells: the mean in percent, with the standard deviation when there are several files.
    """
    reports = [_read_json(Path(file)) for file in files]
    return [name, *(make_cell([report["scores"][key] for report in reports]) for key in columns.values())]


def make_cell(values: list[float]) -> str:
    """Write a mean with its spread.

    values (list[float]): Shares in [0, 1], one per seed.
    RETURNS (str): Percent, for example `95.61 ± 0.12`.
    """
    mean = f"{100 * statistics.mean(values):.2f}"
    return f"{mean} ± {100 * statistics.stdev(values):.2f}" if len(values) > 1 else mean


def make_result(args: argparse.Namespace, columns: list[str], rows: list[list[str]], versions: dict[str, Any]) -> dict[str, Any]:
    """Put a table together with what one needs to make it again.

    args (argparse.Namespace): `title`, `command` and `notes`.
    columns (list[str]): Titles of all columns but the first.
    rows (list[list[str]]): Cells.
    versions (dict[str, Any]): Package -> version.
    RETURNS (dict[str, Any]): The content of a file in docs/results/.
    """
    return {
        "title": args.title,
        "command": args.command,
        "date": datetime.date.today().isoformat(),
        "machine": machine_line(describe_machine()),
        "versions": {name: version for name, version in versions.items() if version},
        "columns": ["", *columns],
        "rows": rows,
        "notes": args.notes,
    }


def make_page(intro: str, files: list[Path]) -> str:
    """Write the whole page.

    intro (str): its beginning.
    files (list[Path]): Result files, in the order of the page.
    RETURNS (str): Markdown.
    """
    return "\n".join([intro, *(make_section(file) for file in files)])


def make_section(file: Path) -> str:
    """Write the section of one result file.

    file (Path): A file with the keys `KEYS`, and `picture` for one beside it.
    RETURNS (str): Markdown: title, table, notes, and how it was made.
    RAISES (ValueError): Keys are missing, or a row is longer or shorter than the header.
    """
    data = _read_json(file)
    if missing := [key for key in KEYS if key not in data]:
        raise ValueError(f"{file} lacks {', '.join(missing)}; expected {', '.join(KEYS)}.")
    if bad := [row for row in data["rows"] if len(row) != len(data["columns"])]:
        raise ValueError(f"{file}: {len(data['columns'])} columns, but a row with {len(bad[0])} cells: {bad[0]}.")
    versions = ", ".join(f"{name} {version}" for name, version in data["versions"].items())
    notes = f"\n{data['notes']}\n" if data["notes"] else ""
    picture = f"![{data['title']}](results/{data['picture']})\n\n" if "picture" in data else ""
    return (
        f"## {data['title']}\n\n{picture}{make_table(data['columns'], data['rows'])}{notes}\n"
        f"Made on {data['date']} ({data['machine']}; {versions}) with\n\n```bash\n{data['command']}\n```\n"
    )


def make_table(columns: list[str], rows: list[list[str]]) -> str:
    """Write a Markdown table.

    columns (list[str]): Header.
    rows (list[list[str]]): Cells; the first column is text, the others are figures.
    RETURNS (str): Markdown, with a final newline.
    """
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *rows]
    return "".join("| " + " | ".join(str(cell) for cell in line) + " |\n" for line in lines)


def _complain(path: Path) -> int:
    print(f"{path} differs from what {SOURCE} gives: run `python scripts/results.py`.", file=sys.stderr)
    return 1


def _read_json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text("utf8"))


def _split(text: str) -> tuple[str, str]:
    name, found, value = text.rpartition("=")
    if not found:
        raise SystemExit(f"Expected NAME=VALUE, found '{text}'.")
    return name, value


def _parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("--add", type=Path, help="result file to write first")
    parser.add_argument("--title", default="")
    parser.add_argument("--command", default="")
    parser.add_argument("--notes", default="")
    parser.add_argument("--row", action="append", default=[], help="NAME=FILE[,FILE...]: one table row")
    parser.add_argument("--column", action="append", default=[], help="TITLE=KEY of `scores`: one column")
    args = parser.parse_args()
    if args.add and not (args.row and args.column):
        parser.error("--add needs --row and --column")
    return args


if __name__ == "__main__":
    sys.exit(main())
