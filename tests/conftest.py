"""Fixtures that all tests share. Nothing here needs a network."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from spacy.language import Language
from thinc.api import fix_random_seed
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertConfig, BertModel, BertTokenizerFast

from . import helpers
from .checkpoint_families import save_family

if "PYTEST_XDIST_WORKER" in os.environ:
    # Two processes share the cores. With several threads each, both would spend their time waiting.
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"


@pytest.fixture(autouse=True)
def _seed() -> None:
    fix_random_seed(0)


@pytest.fixture
def data_folder() -> Path:
    """The folder of the corpora; tests that ask for it are marked `corpora`."""
    folder = os.environ.get("SPACY_ATTENTION_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("SPACY_ATTENTION_DATA names no folder with corpora")
    return Path(folder)


def train_tokenizer() -> BertTokenizerFast:
    """A small WordPiece tokenizer with every printable ASCII character in its vocabulary."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    alphabet = [chr(i) for i in range(33, 127)]
    trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=special, initial_alphabet=alphabet)
    texts = [text for text, _, _ in helpers.SENTENCES]
    words = [f"{a}{b} {b}{a}" for a in "abcdefghijklmnopqrstuvwxyz" for b in "aeiou0123456789"]
    # Every letter stands inside a word as well, so that unseen words fall apart instead of becoming [UNK].
    tokenizer.train_from_iterator(texts + words, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")],
    )
    return BertTokenizerFast(tokenizer_object=tokenizer, model_max_length=512)


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a random BERT of 2 layers, width 32, 4 heads, 512 positions, no dropout, and its fast tokenizer."""
    folder = tmp_path_factory.mktemp("checkpoint") / "tiny-bert"
    tokenizer = train_tokenizer()
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=helpers.WIDTH,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=512,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        # The usual 0.02 makes a random model of this width almost blind to its input.
        initializer_range=0.2,
        pad_token_id=tokenizer.pad_token_id,
    )
    BertModel(config).eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def family_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a tiny checkpoint by the name of its family (see `checkpoint_families`), made when it is first asked for."""
    made: dict[str, Path] = {}

    def folder(name: str) -> Path:
        if name not in made:
            made[name] = save_family(name, tmp_path_factory.mktemp("families") / name)
        return made[name]

    return folder


@pytest.fixture
def make_nlp(tiny_checkpoint: Path) -> helpers.BuildPipeline:
    """Build a pipeline of our components over `tiny_checkpoint`: `make_nlp([names], upstreams={name: name})`."""

    def make(pipeline: Any = (helpers.BACKBONE, helpers.TEXTCAT, helpers.NER), **kwargs: Any) -> Language:
        return helpers.build(tiny_checkpoint, pipeline, **kwargs)

    return make


@pytest.fixture
def trained(make_nlp: helpers.BuildPipeline) -> Language:
    """Backbone, encoder and both heads, initialized with shaken output layers; not trained further."""
    nlp = make_nlp([helpers.BACKBONE, helpers.ENCODER, helpers.TEXTCAT, helpers.NER])
    helpers.initialize(nlp)
    return nlp
