"""What is known of a training besides its models: from what it was made, and how every score came."""

import datetime
import json
from pathlib import Path
from typing import Any

from .curve import draw_curve
from .folders import append_text, replace_json, replace_text, to_json

FILE = "record.jsonl"


class RunRecord:
    """A line for each event in `record.jsonl`; made from it, `metrics.json` of the best evaluation and `curve.svg` of all.

    output (Path): folder of the training.
    weights (dict): score -> its share in the score that chooses the best model.
    """

    def __init__(self, output: Path, weights: dict[str, float | None]):
        self.output = output
        self.shown = [name for name, weight in weights.items() if weight]
        self.events: list[dict[str, Any]] = []

    def begin(self, facts: dict[str, Any]) -> None:
        """facts (dict): config, versions, data and whatever else decides the result."""
        self.events = [{"event": "begin", "time": _now(), **facts}]
        self._write()

    def resume(self, step: int, facts: dict[str, Any]) -> None:
        """Take back the evaluations that will come again, and what a kill left of a line.

        step (int): that comes next. facts (dict): as of `begin`, as they are now.
        """
        lines = (self.output / FILE).read_text(encoding="utf8").splitlines(keepends=True)
        events = [json.loads(line) for line in lines if line.endswith("\n")]
        # An end that was written before the training knew of it comes again as well.
        self.events = [e for e in events if e["event"] not in ("evaluation", "end") or e.get("step", step) < step]
        self.events.append({"event": "resume", "time": _now(), "step": step, **facts})
        self._write()

    def add_evaluation(self, info: dict[str, Any]) -> None:
        """info (dict): what loggers get."""
        fields = ("step", "epoch", "seconds", "update_seconds", "docs", "words", "pieces", "score", "losses")
        event = {"event": "evaluation", **{field: info[field] for field in fields}, "scores": info["other_scores"]}
        self._append(event)
        evaluations = [event for event in self.events if event["event"] == "evaluation"]
        replace_json(self.output / "metrics.json", max(evaluations, key=lambda event: (event["score"], -event["step"])))
        scores = {"score": [(event["step"], event["score"]) for event in evaluations]}
        for name in self.shown:
            scores[name] = [(e["step"], e["scores"][name]) for e in evaluations if isinstance(e["scores"].get(name), float)]
        replace_text(self.output / "curve.svg", draw_curve(scores))

    def end(self) -> None:
        """The training came to its end."""
        self._append({"event": "end", "time": _now()})

    def _append(self, event: dict[str, Any]) -> None:
        self.events.append(json.loads(_to_line(event)))
        append_text(self.output / FILE, _to_line(event))

    def _write(self) -> None:
        replace_text(self.output / FILE, "".join(map(_to_line, self.events)))


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _to_line(event: dict[str, Any]) -> str:
    return to_json(event) + "\n"
