"""Learning curves of both number formats: table and picture, from two tiny trainings."""

import json
from types import SimpleNamespace
from xml.etree import ElementTree

from spacy_attention.training.curve import WIDTH

from ..training.tiny_training import write_config


def test_table_and_picture(root, load_script, run_here, tiny_checkpoint, tmp_path, monkeypatch):
    config = write_config(tmp_path, tiny_checkpoint)
    monkeypatch.syspath_prepend(str(root / "scripts"))
    script = load_script("learning_curves")
    monkeypatch.setattr(script.trainings, "subprocess", SimpleNamespace(run=run_here))
    data = str(tmp_path / "data.spacy")
    options = ["--config", str(config), "--train", data, "--dev", data, "--steps", "2", "--evaluations", "1"]
    options += ["--output", str(tmp_path / "runs"), "--results", str(tmp_path)]
    monkeypatch.setattr("sys.argv", ["learning_curves.py", *options])
    script.main()
    result = json.loads((tmp_path / "curves.json").read_text())
    assert [row[0] for row in result["rows"]] == ["0", "2"]
    assert all(len(row) == len(result["columns"]) for row in result["rows"])
    for precision in script.FORMATS:
        begin = json.loads((tmp_path / "runs" / precision / "record.jsonl").read_text().splitlines()[0])
        assert begin["config"].count(f'precision = "{precision}"') == 4
    picture = ElementTree.parse(tmp_path / "curves.svg").getroot()
    assert picture.get("viewBox").split()[2] == str(WIDTH)
    names = [element.text for element in picture.iter() if element.tag.endswith("text")]
    assert sum(name.startswith("bfloat16, ") for name in names) == 3
    page = load_script("results").make_page("# Results\n", [tmp_path / "curves.json"])
    assert "![Learning curves in float32 and bfloat16, SNIPS, dev](results/curves.svg)" in page
