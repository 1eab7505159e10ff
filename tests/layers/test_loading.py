"""Which checkpoints load, which are refused by name, and that none of them runs code."""

import json
import os
import pickle
import shutil
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoTokenizer, BertTokenizerFast, PretrainedConfig

from spacy_attention.layers import loading
from spacy_attention.layers.hf_shim import CheckpointShim
from spacy_attention.layers.loading import check_transformer, encoder_part, read_checkpoint

from .. import helpers

TINY = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}


def read(folder, **config):
    return read_checkpoint(str(folder), {}, config)


def ids_of(folder) -> torch.Tensor:
    return torch.tensor([AutoTokenizer.from_pretrained(folder)("Ann wants order 17")["input_ids"]])


def states(transformer, ids) -> torch.Tensor:
    with torch.no_grad():
        return transformer.eval()(input_ids=ids).last_hidden_state


@pytest.fixture
def folder(tiny_checkpoint, tmp_path) -> Path:
    """A copy of the tiny BERT, to be changed."""
    return shutil.copytree(tiny_checkpoint, tmp_path / "copy")


def edit_json(path: Path, **changes) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf8")), **changes}), encoding="utf8")


def save_model(folder: Path, config_class: str, **config) -> Path:
    """A random model with the tokenizer of the tiny BERT."""
    made = getattr(transformers, config_class)(**config)
    AutoModel.from_config(made).save_pretrained(folder)
    return folder


def add_tokenizer(folder: Path, source: Path) -> Path:
    BertTokenizerFast.from_pretrained(source).save_pretrained(folder)
    return folder


# Places and tokenizers


def test_folder_without_a_configuration(tmp_path):
    with pytest.raises(ValueError, match=r"E101\]"):
        read(tmp_path)


def test_mistyped_folder():
    # Two slashes are no name on the hub, so nothing asks the network.
    with pytest.raises(ValueError, match=r"E103\].*no/such/folder"):
        read("no/such/folder")


def test_hub_that_does_not_answer(monkeypatch):
    def offline(*args, **kwargs):
        raise OSError("We couldn't connect")

    monkeypatch.setattr(PretrainedConfig, "get_config_dict", offline)
    with pytest.raises(ValueError, match=r"E103\].*someone/model.*huggingface-cli download someone/model"):
        read("someone/model")


def test_tokenizer_that_is_not_fast(folder, monkeypatch):
    slow = transformers.BertTokenizer.from_pretrained(folder)
    monkeypatch.setattr(loading.AutoTokenizer, "from_pretrained", lambda *args, **kwargs: slow)
    with pytest.raises(ValueError, match=rf"E104\].*{folder}"):
        read(folder)


def test_tokenizer_files_that_are_missing(tmp_path):
    save_model(tmp_path, "XLMRobertaConfig", vocab_size=20, max_position_embeddings=40, **TINY)
    with pytest.raises(ValueError, match=r"E104\].*tokenizer\.json"):
        read(tmp_path)


def test_settings_of_a_stock_block_are_taken(folder):
    """spaCy writes `use_fast = true` there; safety is not up to the config."""
    settings = {"use_fast": True, "trust_remote_code": True, "model_max_length": 77}
    transformer, tokenizer = read_checkpoint(str(folder), settings, {"trust_remote_code": True, "output_attentions": True})
    assert tokenizer.model_max_length == 77
    assert transformer.config.output_attentions


# Encoders, decoders and both


@pytest.mark.parametrize("family", ["t5", "gpt2"])
def test_families_with_a_decoder(family_folder, family):
    transformer, _ = read(family_folder(family))
    part = encoder_part(transformer)
    assert (part is transformer) == (family == "gpt2")
    assert part.config.hidden_size == helpers.WIDTH


@pytest.fixture
def bart(tmp_path, tiny_checkpoint) -> Path:
    sizes = {"encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    config = {**sizes, "d_model": 32, "encoder_layers": 2, "decoder_layers": 1, "max_position_embeddings": 64, "dropout": 0.0}
    add_tokenizer(tmp_path / "bart", tiny_checkpoint)
    return save_model(tmp_path / "bart", "BartConfig", vocab_size=300, init_std=0.2, **config)


@pytest.fixture
def both(request, family_folder, bart) -> Path:
    """A checkpoint with encoder and decoder."""
    return bart if request.param == "bart" else family_folder("t5")


@pytest.mark.parametrize("both", ["t5", "bart"], indirect=True)
def test_only_the_encoder_is_kept_and_saved(both):
    shim = CheckpointShim(precision="float32", tokenizer_config={}, transformer_config={})
    shim.load_checkpoint(str(both))
    ids = ids_of(both)
    expected = states(AutoModel.from_pretrained(both).get_encoder(), ids)
    torch.testing.assert_close(states(shim.transformer, ids), expected, atol=1e-5, rtol=0)
    assert not [key.name for key, _ in shim.parameters() if "decoder" in key.name]
    again = CheckpointShim(precision="float32", tokenizer_config={}, transformer_config={})
    again.from_bytes(shim.to_bytes())
    assert torch.equal(states(again.transformer, ids), states(shim.transformer, ids))
    assert again.to_bytes() == shim.to_bytes()


def test_weights_of_an_encoder_alone(family_folder, tmp_path):
    """Many T5 checkpoints were saved from `T5EncoderModel` and have no decoder."""
    source = family_folder("t5")
    transformers.T5EncoderModel.from_pretrained(source).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(source).save_pretrained(tmp_path)
    ids = ids_of(source)
    found = states(encoder_part(read(tmp_path)[0]), ids)
    torch.testing.assert_close(found, states(encoder_part(read(source)[0]), ids), atol=1e-5, rtol=0)


# Model types that cannot work


@pytest.mark.parametrize(
    ("config_class", "model_type", "settings"),
    [
        ("ViTConfig", "vit", {**TINY, "image_size": 8, "patch_size": 4}),
        ("ASTConfig", "audio-spectrogram-transformer", TINY),
        ("FNetConfig", "fnet", {"vocab_size": 300, "max_position_embeddings": 40, **TINY}),
    ],
)
def test_model_type_that_cannot_work(tmp_path, tiny_checkpoint, config_class, model_type, settings):
    add_tokenizer(save_model(tmp_path, config_class, **settings), tiny_checkpoint)
    missing = "attention_mask" if model_type == "fnet" else "input_ids"
    with pytest.raises(ValueError, match=rf"E114\].*'{model_type}'.*no {missing}"):
        read(tmp_path)


def test_model_that_wants_images_as_well(tmp_path, tiny_checkpoint):
    text = {"vocab_size": 300, "max_position_embeddings": 40, **TINY}
    config = {"text_config": text, "vision_config": {"image_size": 8, "patch_size": 4, **TINY}, "projection_dim": 8}
    add_tokenizer(save_model(tmp_path, "CLIPConfig", **config), tiny_checkpoint)
    with pytest.raises(ValueError, match=r"E114\].*'clip'.*pixel_values"):
        read(tmp_path)


def test_model_without_hidden_states():
    class Scorer(torch.nn.Module):
        config = transformers.BertConfig(model_type="scorer")

        def forward(self, input_ids, attention_mask):
            return transformers.modeling_outputs.SequenceClassifierOutput(logits=input_ids)

    with pytest.raises(ValueError, match=r"E114\].*last_hidden_state"):
        check_transformer(Scorer(), "some/scorer")


def test_states_of_another_width_than_the_configuration_says(tmp_path, tiny_checkpoint):
    config = {"vocab_size": 300, "hidden_size": 32, "ffn_dim": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    add_tokenizer(save_model(tmp_path, "OPTConfig", word_embed_proj_dim=16, **config), tiny_checkpoint)
    with pytest.raises(ValueError, match=r"E114\].*'opt'.*\(1, 2, 16\), not \(1, 2, 32\)"):
        read(tmp_path)


@pytest.mark.parametrize("model_type", ["no-such-type", "vision-encoder-decoder"])
def test_model_type_that_transformers_does_not_have(folder, model_type):
    changes = {"model_type": model_type, "encoder": {"model_type": "vit"}, "decoder": {"model_type": "bert"}}
    edit_json(folder / "config.json", **changes)
    with pytest.raises(ValueError, match=rf"E114\].*'{model_type}'"):
        read(folder)


# Code of the checkpoint


class Bomb:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: Path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.fixture
def pickled(folder) -> Path:
    """The tiny BERT with its weights in `pytorch_model.bin` only."""
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(weights, folder / "pytorch_model.bin")
    return folder


def test_weights_in_a_pickle_of_tensors(pickled, tiny_checkpoint):
    assert sorted(path.name for path in pickled.iterdir() if path.suffix != ".json") == ["pytorch_model.bin", "vocab.txt"]
    ids = ids_of(tiny_checkpoint)
    assert torch.equal(states(read(pickled)[0], ids), states(read(tiny_checkpoint)[0], ids))


@pytest.mark.parametrize("zipped", [True, False])
def test_pickle_that_would_run_code(pickled, zipped):
    trace = pickled / "code-was-run"
    weights = {"embeddings.word_embeddings.weight": Bomb(trace)}
    if zipped:
        torch.save(weights, pickled / "pytorch_model.bin")
    else:
        (pickled / "pytorch_model.bin").write_bytes(pickle.dumps(weights, protocol=2))
    with pytest.raises(ValueError, match=r"E115\].*pytorch_model\.bin.*safetensors\.torch\.save_file"):
        read(pickled)
    assert not trace.exists()


def test_the_pickle_above_runs_code(tmp_path):
    pickle.loads(pickle.dumps(Bomb(tmp_path / "trace")))
    assert (tmp_path / "trace").exists()


def test_remedy_for_a_pickle(pickled):
    """The steps that E115 names give a checkpoint that loads."""
    weights = torch.load(pickled / "pytorch_model.bin", weights_only=False)
    save_file(weights, pickled / "model.safetensors", metadata={"format": "pt"})
    (pickled / "pytorch_model.bin").unlink()
    read(pickled)


def test_weights_that_are_damaged_or_missing(folder):
    (folder / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(ValueError, match=r"E115\].*model\.safetensors"):
        read(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=rf"E115\].*{folder}"):
        read(folder)


@pytest.mark.parametrize("model_type", ["own", "bert"])
def test_remote_code_is_refused(folder, model_type, monkeypatch):
    """Also where transformers has the type: its own class would run the weights of another model."""

    def ask(*args):
        raise AssertionError("somebody was asked")

    monkeypatch.setattr("builtins.input", ask)
    edit_json(folder / "config.json", model_type=model_type, auto_map={"AutoConfig": "own.Own", "AutoModel": "own.OwnModel"})
    (folder / "own.py").write_text("raise SystemExit('code of the checkpoint was run')")
    with pytest.raises(ValueError, match=r"E116\].*auto_map.*AutoConfig, AutoModel"):
        read(folder)
    with pytest.raises(ValueError, match=r"E116\]"):
        read_checkpoint(str(folder), {"trust_remote_code": True}, {"trust_remote_code": True})


def test_remote_code_of_a_tokenizer(folder):
    auto_map = {"AutoTokenizer": [None, "own.OwnTokenizer"]}
    edit_json(folder / "tokenizer_config.json", tokenizer_class="OwnTokenizer", auto_map=auto_map)
    (folder / "own.py").write_text("raise SystemExit('code of the checkpoint was run')")
    with pytest.raises(ValueError, match=r"E116\].*auto_map.*AutoTokenizer"):
        read(folder)


def test_remote_code_in_a_saved_pipeline(folder, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda *args: pytest.fail("somebody was asked"))
    config = {"model_type": "own", "auto_map": {"AutoConfig": "own.Own"}}
    files = {"own.py": b"raise SystemExit('code of the pipeline was run')"}
    with pytest.raises(ValueError, match="custom code"):
        loading.rebuild(json.dumps(config), files)


# Pieces


def test_pieces_without_a_vector(folder):
    tokenizer = BertTokenizerFast.from_pretrained(folder)
    tokenizer.add_tokens(["refund-form", "\U0001f9fe"])
    tokenizer.save_pretrained(folder)
    with pytest.raises(ValueError, match=r"E118\].* 2 pieces .*refund-form.*resize_token_embeddings"):
        read(folder)
    model = AutoModel.from_pretrained(folder)
    model.resize_token_embeddings(len(tokenizer))
    model.save_pretrained(folder)
    read(folder)


def test_special_token_without_a_vector(folder):
    """Nothing in a text becomes one; padding is masked."""
    tokenizer = BertTokenizerFast.from_pretrained(folder)
    tokenizer.add_special_tokens({"pad_token": "[nothing]", "mask_token": "[hidden]"})
    tokenizer.save_pretrained(folder)
    read(folder)


# Weights that fit and weights that do not


def test_old_weights_with_position_ids(folder, tiny_checkpoint):
    weights = load_file(folder / "model.safetensors")
    weights["embeddings.position_ids"] = torch.arange(512)[None]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    ids = ids_of(tiny_checkpoint)
    assert torch.equal(states(read(folder)[0], ids), states(read(tiny_checkpoint)[0], ids))


def test_weights_without_a_pooler(folder):
    weights = load_file(folder / "model.safetensors")
    kept = {name: x for name, x in weights.items() if "pooler" not in name}
    assert len(kept) == len(weights) - 2
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    read(folder)


def test_weights_that_are_not_all_there(folder):
    weights = load_file(folder / "model.safetensors")
    kept = {name: x for name, x in weights.items() if not name.startswith("encoder.layer.1.attention.self.query")}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match=r"E117\].* 2 of the .*encoder\.layer\.1\.attention\.self\.query\.weight"):
        read(folder)


@pytest.mark.parametrize(("setting", "name"), [({"num_hidden_layers": 3}, "layer.2"), ({"intermediate_size": 65}, "layer.0")])
def test_configuration_that_asks_for_other_weights(folder, setting, name):
    with pytest.raises(ValueError, match=rf"E117\].*encoder\.{name}.*transformer_config"):
        read(folder, **setting)


def test_fewer_layers_than_the_checkpoint_has(folder):
    assert len(read(folder, num_hidden_layers=1)[0].encoder.layer) == 1
