"""The time of decoding: every part is met, and the last row adds two of them up."""

import json
import sys

import pytest


@pytest.fixture
def script(root, load_script, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "scripts"))
    monkeypatch.chdir(root)
    yield load_script("decoding_times")
    for name in [name for name in sys.modules if name.startswith("peer_") or name == "step_times"]:
        del sys.modules[name]


def test_every_part_is_met(script, tiny_checkpoint, tmp_path, monkeypatch):
    options = ["--rounds", "2", "--steps", "2", "--corpus", "helpdesk", "--limit", "12"]
    options += ["--checkpoint", str(tiny_checkpoint), "--output", str(tmp_path)]
    monkeypatch.setattr("sys.argv", ["decoding_times.py", *options])
    script.main()
    result = json.loads((tmp_path / "performance-decoding.json").read_text())
    assert len(result["rows"]) == len(script.PARTS) + 1
    for rounds in result["sides"].values():
        assert len(rounds) == 2
        assert all(set(each) == set(script.PARTS) and min(each.values()) > 0 for each in rounds)
    first = result["sides"]["float32"]
    shares = sorted(100 * sum(each[part] for part in script.DECODING) / sum(each.values()) for each in first)
    assert float(result["rows"][-1][2]) == pytest.approx(sum(shares) / 2, abs=0.06)
