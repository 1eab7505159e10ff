"""docs/results.md and docs/performance.md are what the files in docs/results/ give."""

import json

import pytest


@pytest.fixture
def results(load_script, tmp_path, monkeypatch):
    module = load_script("results")
    (tmp_path / "docs" / "results").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return module


@pytest.fixture
def run(results, monkeypatch):
    def call(*args):
        monkeypatch.setattr("sys.argv", ["results.py", *args])
        return results.main()

    return call


def write_report(path, ents_f):
    report = {
        "scores": {"ents_f": ents_f, "utterance_acc": 0.5},
        "versions": {"spacy": "3.8.18", "cupy": None},
    }
    path.write_text(json.dumps(report), "utf8")
    return str(path)


def test_the_checked_in_page_is_up_to_date(load_script, root, monkeypatch):
    monkeypatch.chdir(root)
    monkeypatch.setattr("sys.argv", ["results.py", "--check"])
    assert load_script("results").main() == 0


def test_add_averages_seeds_and_writes_the_page(run, tmp_path):
    files = ",".join(write_report(tmp_path / f"{i}.json", value) for i, value in enumerate((0.95, 0.96, 0.97)))
    columns = ["--column", "Slot F1=ents_f", "--column", "Whole=utterance_acc"]
    made = ["--title", "SNIPS test", "--command", "python -m spacy project run snips"]
    assert run("--add", "docs/results/snips.json", *made, "--row", f"MiniLM={files}", *columns) == 0
    page = (tmp_path / "docs" / "results.md").read_text("utf8")
    assert "| MiniLM | 96.00 ± 1.00 | 50.00 ± 0.00 |" in page
    assert "## SNIPS test" in page
    assert "spacy 3.8.18" in page
    assert "python -m spacy project run snips" in page
    assert run("--check") == 0


def test_files_about_speed_have_a_page_of_their_own(results, run, tmp_path):
    data = dict.fromkeys(results.KEYS, "") | {"versions": {}, "columns": ["", "Words/s"], "rows": [["ours", "9,000"]]}
    (tmp_path / "docs" / "results" / "performance-mixed.json").write_text(json.dumps(data), "utf8")
    assert run() == 0
    assert "9,000" in (tmp_path / "docs" / "performance.md").read_text("utf8")
    assert "9,000" not in (tmp_path / "docs" / "results.md").read_text("utf8")
    (tmp_path / "docs" / "performance.md").unlink()
    assert run("--check") == 1


def test_check_finds_a_page_changed_by_hand(run, tmp_path):
    assert run() == 0
    with (tmp_path / "docs" / "results.md").open("a", encoding="utf8") as page:
        page.write("99.9\n")
    assert run("--check") == 1


def test_one_file_has_no_spread(results):
    assert results.make_cell([0.95613]) == "95.61"


def test_a_row_of_another_length_is_refused(results, run, tmp_path):
    data = dict.fromkeys(results.KEYS, "") | {"versions": {}, "columns": ["", "F"], "rows": [["x"]]}
    (tmp_path / "docs" / "results" / "bad.json").write_text(json.dumps(data), "utf8")
    with pytest.raises(ValueError, match="2 columns"):
        run()


def test_a_missing_key_is_named(run, tmp_path):
    (tmp_path / "docs" / "results" / "bad.json").write_text('{"title": "x"}', "utf8")
    with pytest.raises(ValueError, match="versions"):
        run()
