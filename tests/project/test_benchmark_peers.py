"""The comparison with spacy-transformers and plain torch, with a tiny checkpoint; seconds are never looked at."""

import json
import os
import sys

import pytest
import spacy
import torch
from transformers import AutoModel, AutoTokenizer

from spacy_attention.layers.shim import TorchShim

TRAIN = """nlu:
- intent: refund
  examples: |
    - [Ann](PERSON) wants her money back
    - money back for order [4711](ORDER)
- intent: thanks
  examples: |
    - thanks a lot
    - many thanks to [Bob](PERSON)
"""


@pytest.fixture(scope="module")
def scripts(root):
    """Find the scripts as they find each other: beside the one that runs; and forget them afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(root / "scripts"))
        patch.chdir(root)
        yield
        for name in [name for name in sys.modules if name.startswith("peer_")]:
            del sys.modules[name]


@pytest.fixture(scope="module")
def train_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("train") / "train.yml"
    path.write_text(TRAIN, "utf8")
    return path


@pytest.fixture(scope="module")
def peers(scripts, train_file, tiny_checkpoint, tmp_path_factory):
    """The folder of all pipelines, their heads updated twice."""
    import peer_pipelines

    folder = tmp_path_factory.mktemp("peers") / "pipelines"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(peer_pipelines, "TRAIN", train_file)
        peer_pipelines.build_pipelines(folder, str(tiny_checkpoint), steps=2)
    return folder


@pytest.fixture
def run(peers, load_script, tiny_checkpoint, tmp_path, monkeypatch):
    """Run the script with tiny settings on the pipelines that are there. RETURNS: the result, the script as a module."""

    def call(*args):
        module = load_script("benchmark_peers")
        options = ["--corpus", "helpdesk", "--output", str(tmp_path), "--pipelines", str(peers), "--reuse"]
        options += ["--checkpoint", str(tiny_checkpoint), "--rounds", "1", "--limit", "3", "--speed-only"]
        monkeypatch.setattr("sys.argv", ["benchmark_peers.py", *options, *args])
        module.main()
        return json.loads((tmp_path / "performance-helpdesk.json").read_text("utf8")), module

    return call


def test_all_sides_on_the_helpdesk_messages(run, load_script, tmp_path):
    result, module = run()
    assert list(result["sides"]) == list(module.SIDES)
    assert result["data"]["texts"] == 3
    assert result["sides"]["stock"]["ratio"]["value"] == 1.0
    assert result["sides"]["raw-bfloat16"]["of_limit"]["value"] == 1.0
    for name, side in result["sides"].items():
        limit = result["sides"][f"raw-{module.precision_of(name)}"]["seconds"]
        assert side["of_limit"]["value"] == pytest.approx(limit[0] / side["seconds"][0])
        assert side["words_per_second"]["value"] == pytest.approx(result["data"]["words"] / side["seconds"][0])
    assert str(tmp_path) not in json.dumps(result)
    page = load_script("results").make_page("# Performance\n", [tmp_path / "performance-helpdesk.json"])
    assert page.count("\n| ") == 2 + len(module.SIDES)
    assert "scripts/benchmark_peers.py --corpus helpdesk --rounds 1 --limit 3" in page


def test_sides_can_be_chosen_and_memory_is_measured(run, load_script, monkeypatch):
    found = {"load_seconds": 1.5, "rss_after_load_mb": 400.0, "peak_rss_mb": 1234.4, "size_mb": 90.6}
    result, module = run("--only", "ours-float32", "raw-float32")
    assert [row[0] for row in result["rows"]] == [module.SIDES["ours-float32"], module.SIDES["raw-float32"]]
    assert result["rows"][0][-3:] == ["", "", ""]
    assert module.make_row({**result["sides"]["ours-float32"], **found})[-3:] == ["1,234", "1.5", "91"]


def test_the_precision_of_each_pipeline(peers, scripts):
    for folder in peers.iterdir():
        nlp = spacy.load(folder)
        shims = [shim for shim in nlp.pipeline[0][1].model.shims if isinstance(shim, TorchShim)]
        assert [shim.precision for shim in shims] == ([] if folder.name == "stock" else [folder.name.split("-")[1]])
        assert len(nlp.pipe_names) == (1 if folder.name.startswith("backbone") else 3)


def test_stock_heads_are_the_same_on_both_backbones(peers):
    stock, swapped = spacy.load(peers / "stock"), spacy.load(peers / "ours-bfloat16-stock-heads")
    texts = ["money back for Ann", "many thanks"]
    for a, b in zip(stock.pipe(texts), swapped.pipe(texts), strict=True):
        assert a.cats == pytest.approx(b.cats, abs=0.05)
    for head in ("ner", "textcat"):
        assert stock.get_pipe(head).labels == swapped.get_pipe(head).labels
        assert stock.get_pipe(head).model.to_bytes() == swapped.get_pipe(head).model.to_bytes()


def test_backbones_keep_the_weights_of_the_checkpoint(peers, tiny_checkpoint):
    """Plain torch runs the checkpoint itself, so the pipelines must run it too."""
    expected = AutoModel.from_pretrained(tiny_checkpoint).state_dict()
    stock = spacy.load(peers / "stock").get_pipe("transformer").model.transformer.state_dict()
    ours = spacy.load(peers / "ours-float32").get_pipe("attention_backbone").model.shims[0].transformer.state_dict()
    for key in ("embeddings.word_embeddings.weight", "encoder.layer.1.output.dense.weight"):
        assert torch.equal(stock[key], expected[key])
        assert torch.equal(ours[key], expected[key])


def test_training_step(scripts, train_file, tiny_checkpoint, monkeypatch):
    import peer_training

    monkeypatch.setattr(peer_training, "snips_files", lambda pattern: [train_file])
    monkeypatch.setattr(peer_training, "BATCH_DOCS", 2)
    rows, per_round = peer_training.measure_training(str(tiny_checkpoint), rounds=1, batches=2)
    assert per_round == 4
    assert [row["name"] for row in rows] == list(peer_training.TITLES)
    assert rows[0]["ratio"]["value"] == 1.0
    assert all(len(row["seconds"]) == 1 for row in rows)


def test_plain_torch_gets_every_piece_once(scripts, tiny_checkpoint):
    from peer_raw import BUDGET, WINDOW, make_batches

    tokenizer = AutoTokenizer.from_pretrained(tiny_checkpoint)
    texts = ["thanks a lot", "", "please ask Bob " * 300, "refund"]
    batches = make_batches(str(tiny_checkpoint), texts, torch.device("cpu"))
    assert all(ids.numel() <= BUDGET and ids.shape[1] <= WINDOW for ids, _ in batches)
    lengths = [int(n) for _, mask in batches for n in mask.sum(dim=1)]
    assert lengths == sorted(lengths, reverse=True)
    special = set(tokenizer.all_special_ids)
    found = sorted(int(i) for ids, mask in batches for i in ids[mask] if int(i) not in special)
    expected = sorted(i for text in texts for i in tokenizer(text, add_special_tokens=False).input_ids)
    assert found == expected


def test_random_weights_of_a_size(scripts, tiny_checkpoint, tmp_path, monkeypatch):
    import peer_pipelines

    monkeypatch.setitem(peer_pipelines.SHAPES, "minilm", (24, 1, 2, 48))
    folder = peer_pipelines.random_checkpoint(str(tiny_checkpoint), tmp_path / "random", "minilm")
    assert AutoModel.from_pretrained(folder).config.hidden_size == 24
    assert AutoTokenizer.from_pretrained(folder).get_vocab() == AutoTokenizer.from_pretrained(tiny_checkpoint).get_vocab()


@pytest.fixture
def corpora(scripts):
    import peer_corpora

    if not os.environ.get("SPACY_ATTENTION_DATA"):
        pytest.skip("SPACY_ATTENTION_DATA is not set")
    return peer_corpora


@pytest.mark.corpora
def test_mixed_corpus(corpora):
    texts = corpora.read_corpus("mixed")
    nlp = spacy.blank("en")
    words = [len(nlp.make_doc(text)) for text in texts]
    assert len(texts) == 549
    assert 33_000 < sum(words) < 36_000
    assert sorted(words)[len(words) // 2] < 25
    assert max(words) > 600
    assert texts == corpora.read_corpus("mixed")
    assert corpora.read_corpus("mixed", limit=5) == texts[:5]


@pytest.mark.corpora
def test_movie_reviews(corpora):
    assert len(corpora.read_movie_reviews()) == 2000
    assert len(corpora.read_corpus("movie_reviews")) == corpora.DEFAULT_LIMITS["movie_reviews"]


def test_without_the_data_folder_the_variable_is_named(scripts, monkeypatch):
    import peer_corpora

    monkeypatch.delenv("SPACY_ATTENTION_DATA", raising=False)
    with pytest.raises(SystemExit, match="SPACY_ATTENTION_DATA"):
        peer_corpora.read_corpus("mixed")
