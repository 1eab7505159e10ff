"""Fetching SNIPS: from a folder and by URL, checked, atomic."""

import hashlib

import pytest


@pytest.fixture
def source(tmp_path):
    """A small repository of the same shape."""
    folder = tmp_path / "source"
    intent = folder / "2017-06-custom-intent-engines" / "GetWeather"
    intent.mkdir(parents=True)
    (folder / "LICENSE").write_bytes(b"CC0")
    (intent / "train_GetWeather_full.json").write_bytes(b"{}")
    (intent / "validate_GetWeather.json").write_bytes(b"[]")
    return folder


@pytest.fixture
def fetch_snips(load_script, source, monkeypatch):
    module = load_script("fetch_snips")
    paths = [path for path in source.rglob("*") if path.is_file()]
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    monkeypatch.setattr(module, "SHA256", sums)
    monkeypatch.setattr(module, "URL", source.as_uri())
    return module


@pytest.mark.parametrize("local", [True, False])
def test_fetches_from_a_folder_or_a_url(fetch_snips, source, tmp_path, local):
    fetch_snips.fetch(tmp_path / "out", source if local else None)
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"LICENSE", "train_GetWeather_full.json", "validate_GetWeather.json"}


def test_a_wrong_checksum_stops_and_keeps_what_was_there(fetch_snips, source, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "validate_GetWeather.json").write_bytes(b"from before")
    (source / "2017-06-custom-intent-engines/GetWeather/validate_GetWeather.json").write_bytes(b"changed")
    with pytest.raises(ValueError, match="sha256"):
        fetch_snips.fetch(out, source)
    assert (out / "validate_GetWeather.json").read_bytes() == b"from before"
    assert not list(out.glob("*.part"))


def test_right_files_are_not_read_again(fetch_snips, source, tmp_path):
    fetch_snips.fetch(tmp_path / "out", source)
    fetch_snips.fetch(tmp_path / "out", tmp_path / "no such source")


def test_a_missing_source_is_one_line_and_status_1(fetch_snips, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SPACY_ATTENTION_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setattr("sys.argv", ["fetch_snips.py", "--output", str(tmp_path / "out")])
    assert fetch_snips.main() == 1
    assert "Cannot fetch SNIPS" in capsys.readouterr().err


def test_all_14_files_and_the_licence_are_pinned(load_script):
    sums = load_script("fetch_snips").SHA256
    assert len(sums) == 15
    assert all(len(value) == 64 for value in sums.values())
