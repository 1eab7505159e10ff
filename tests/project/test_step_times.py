"""The parts of a training step: every one is met, and a part within another is counted once."""

import json
import sys
import time

import pytest


@pytest.fixture
def script(root, load_script, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "scripts"))
    monkeypatch.chdir(root)
    module = load_script("step_times")
    # It puts timed functions into these.
    monkeypatch.setattr(module.backbone, "lay_out", module.backbone.lay_out)
    monkeypatch.setattr(module.optimizer, "total_norm", module.optimizer.total_norm)
    yield module
    for name in [name for name in sys.modules if name.startswith("peer_")]:
        del sys.modules[name]


def test_parts_within_parts(script):
    watch = script.Stopwatch()
    begun = time.perf_counter()
    with watch.part("outer"):
        time.sleep(0.02)
        assert watch.wrap("inner", lambda x: time.sleep(0.03) or x)(7) == 7
    took = time.perf_counter() - begun
    assert 0.03 <= watch.seconds["inner"] < took
    assert 0.02 <= watch.seconds["outer"] <= took - watch.seconds["inner"]


def test_every_part_is_met(script, root, tiny_checkpoint, tmp_path, monkeypatch):
    monkeypatch.setattr(script, "snips_files", lambda pattern: [root / "assets" / "helpdesk" / "dev.yml"])
    options = ["--rounds", "1", "--steps", "2", "--checkpoint", str(tiny_checkpoint), "--output", str(tmp_path)]
    monkeypatch.setattr("sys.argv", ["step_times.py", *options])
    script.main()
    result = json.loads((tmp_path / "performance-step.json").read_text())
    assert [row[0] for row in result["rows"]] == [*script.PARTS.values(), "together"]
    for rounds in result["sides"].values():
        assert all(set(each) == set(script.PARTS) and min(each.values()) > 0 for each in rounds)
