"""The account of a run: every entity of the source is in the output or listed with the reason why not."""

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ..errors import Errors
from .encoding import without_surrogates
from .types import Problem


@dataclass
class Account:
    """Counts of one output file.

    docs (int): documents written.
    spans_in (int): entities counted by the readers.
    spans_out (int): entities in the documents.
    problems (list[Problem]): all that was listed.
    """

    docs: int = 0
    spans_in: int = 0
    spans_out: int = 0
    problems: list[Problem] = field(default_factory=list)

    @property
    def spans_lost(self) -> int:
        """RETURNS (int): entities listed as dropped or refused."""
        return sum(problem.loses_span for problem in self.problems)

    def counts(self) -> Counter[tuple[str, str]]:
        """RETURNS (Counter): number of problems by kind and action."""
        return Counter((problem.kind, problem.action) for problem in self.problems)

    def check(self, path: Path) -> None:
        """Check that spans in = spans out + spans dropped or refused.

        path (Path): the output, for the message.
        RAISES (ValueError): E408 if not.
        """
        if self.spans_in != self.spans_out + self.spans_lost:
            raise ValueError(
                Errors.E408.format(path=path, spans_in=self.spans_in, spans_out=self.spans_out, lost=self.spans_lost)
            )

    def to_jsonl(self) -> str:
        """RETURNS (str): one line per problem, without characters that UTF-8 cannot hold."""
        lines = (json.dumps(asdict(problem), ensure_ascii=False) + "\n" for problem in self.problems)
        return without_surrogates("".join(lines))
