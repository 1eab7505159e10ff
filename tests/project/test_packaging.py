"""What `scripts/package.py` and `scripts/check_wheel.py` put together, without building anything."""

from types import SimpleNamespace

import pytest
import spacy

from spacy_attention.checkpoints import DEFAULT_CHECKPOINT


@pytest.fixture
def package(load_script):
    return load_script("package")


def write_config(folder, name):
    """A pipeline folder whose config names a checkpoint; only the config is read."""
    nlp = spacy.blank("en")
    config = nlp.config
    config["components"] = {"attention_backbone": {"factory": "attention_backbone", "model": {"name": name}}}
    config.to_disk(folder / "config.cfg")
    return folder


def test_notice_names_checkpoint_and_holds_the_licence(package, tmp_path):
    notice = package.licence_notice(write_config(tmp_path, DEFAULT_CHECKPOINT))
    assert f"fine-tuned from: {DEFAULT_CHECKPOINT}" in notice
    assert "Licence of these weights: Apache-2.0" in notice
    assert "TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION" in notice


def test_licence_of_a_folder_comes_from_its_model_card(package, tmp_path):
    checkpoint = tmp_path / "my-model"
    checkpoint.mkdir()
    (checkpoint / "config.json").write_text("{}", "utf8")
    (checkpoint / "README.md").write_text("---\nlicense: mit\n---\n# Mine\n", "utf8")
    notice = package.licence_notice(write_config(tmp_path, str(checkpoint)))
    assert "Licence of these weights: mit" in notice
    assert "fine-tuned from: my-model" in notice
    assert str(tmp_path) not in notice


def test_an_unknown_licence_is_said(package, tmp_path):
    notice = package.licence_notice(write_config(tmp_path, "someone/some-model"))
    assert "unknown to this project" in notice
    assert "https://huggingface.co/someone/some-model" in notice


def test_a_pipeline_without_checkpoint(package, tmp_path):
    nlp = spacy.blank("en")
    nlp.to_disk(tmp_path)
    assert "from scratch" in package.licence_notice(tmp_path)


def test_a_wheel_replaces_the_older_one(package, tmp_path):
    wheel = tmp_path / "x-1.whl"
    wheel.write_bytes(b"new")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x-1.whl").write_bytes(b"old")
    assert package.put_in_place(wheel, tmp_path / "out").read_bytes() == b"new"
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["x-1.whl"]


def test_predictions_are_compared_with_a_tolerance(load_script):
    check = load_script("check_wheel")
    a = {"cats": {"x": 0.5}, "ents": [[0, 3, "PERSON", 0.9]]}
    near = {"cats": {"x": 0.500004}, "ents": [[0, 3, "PERSON", 0.9]]}
    assert check.differences([a], [near]) == []
    for other in (
        {"cats": {"x": 0.6}, "ents": a["ents"]},
        {"cats": {"y": 0.5}, "ents": a["ents"]},
        {"cats": a["cats"], "ents": [[0, 4, "PERSON", 0.9]]},
        {"cats": a["cats"], "ents": [[0, 3, "PERSON", None]]},
        {"cats": a["cats"], "ents": []},
    ):
        assert len(check.differences([a], [other])) == 1
    assert len(check.differences([a], [])) == 1


def test_package_name(load_script, tmp_path):
    wheel = tmp_path / "en_helpdesk-0.1.0-py3-none-any.whl"
    assert load_script("check_wheel").package_name(wheel) == "en_helpdesk"


def test_a_missing_plugin_is_named(root, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "spacy_attention", None)
    with pytest.raises(ModuleNotFoundError, match="spacy-attention"):
        exec((root / "scripts" / "need_spacy_attention.py").read_text("utf8"))


def test_no_process_of_the_empty_environment_sees_packages_from_outside_it(load_script, tmp_path, monkeypatch):
    check_wheel, seen = load_script("check_wheel"), []

    def record(command, **options):
        seen.append(options["env"])
        (tmp_path / "predictions.json").write_text("[]", "utf8")
        return SimpleNamespace(stdout="", stderr="", returncode=1)

    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    monkeypatch.setattr(check_wheel.subprocess, "run", record)
    monkeypatch.setattr(check_wheel.venv, "create", lambda *args, **options: None)
    python = check_wheel.install(tmp_path / "en_x-0.1.0-py3-none-any.whl", tmp_path / "constraints.txt", tmp_path / "env")
    check_wheel.present_checkpoints(python)
    check_wheel.predict(python, "en_x", tmp_path / "data.spacy", tmp_path)
    check_wheel.check_missing_plugin(python, "en_x")
    assert len(seen) == 5
    assert not any("PYTHONPATH" in env for env in seen)
