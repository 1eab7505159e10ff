"""The comparison of training settings, on a tiny checkpoint; seconds are never looked at."""

import json
import sys

import pytest


@pytest.fixture
def script(root, load_script, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "scripts"))
    monkeypatch.chdir(root)
    yield load_script("benchmark_settings")
    for name in [name for name in sys.modules if name.startswith("peer_")]:
        del sys.modules[name]


def test_the_table(script, load_script, tiny_checkpoint, tmp_path, monkeypatch):
    options = [
        "--only",
        "cached",
        "--docs",
        "3",
        "--rounds",
        "1",
        "--checkpoint",
        str(tiny_checkpoint),
        "--output",
        str(tmp_path),
    ]
    monkeypatch.setattr("sys.argv", ["benchmark_settings.py", *options])
    script.main()
    result = json.loads((tmp_path / "performance-settings.json").read_text())
    known = script.sides(2, tmp_path)
    assert [row[0] for row in result["rows"]] == [known["cached"].title]
    assert all(100 < side["peak_rss_mb"] < 5000 and len(side["seconds"]) == 1 for side in result["sides"].values())
    assert str(tmp_path) not in json.dumps(result)
    page = load_script("results").make_page("# Performance\n", [tmp_path / "performance-settings.json"])
    assert "python scripts/benchmark_settings.py --docs 3 --rounds 1" in page


def test_every_setting_trains(script, tiny_checkpoint, tmp_path):
    docs = script.read_docs([script.TRAIN])[:2]
    for side in script.sides(2, tmp_path).values():
        script.training_run(side, docs, str(tiny_checkpoint))()
