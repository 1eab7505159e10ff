"""A tiny random checkpoint of each model family, with a tokenizer of that family's algorithm, trained here."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from . import helpers

# Longest input of a checkpoint here, special pieces included.
POSITIONS = 130
SIZES = {
    "hidden_size": helpers.WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": POSITIONS,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    # The usual 0.02 makes a random model of this width almost blind to its input.
    "initializer_range": 0.2,
}
TEXTS = [
    *(text for text, _, _ in helpers.SENTENCES),
    "The naïve café owner in Zürich paid £4.50 (about €5) for <b>two</b> e-mails; [see] {this}!",
    "请帮我查一下订单 我的包裹还没有到",
    "أين طلبي من فضلك",
    "मेरा आदेश कहाँ है",
    *(f"{a}{b} {b}{a} {a.upper()}{b}" for a in "abcdefghijklmnopqrstuvwxyz" for b in "aeiou0123456789"),
]
ASCII = [chr(i) for i in range(33, 127)]
BERT_TOKENS = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
ROBERTA_TOKENS = {"bos": "<s>", "pad": "<pad>", "eos": "</s>", "unk": "<unk>", "cls": "<s>", "sep": "</s>", "mask": "<mask>"}
ALBERT_TOKENS = {"pad": "<pad>", "unk": "<unk>", "bos": "[CLS]", "eos": "[SEP]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
T5_TOKENS = {"pad": "<pad>", "eos": "</s>", "unk": "<unk>"}
GPT2_TOKENS = dict.fromkeys(["bos", "eos", "unk"], "<|endoftext|>")


class Family(NamedTuple):
    """How to make the checkpoint of one model family.

    config (str): class of its configuration in transformers.
    tokenizer (Callable): gives its tokenizer.
    settings (dict): of the configuration, beside `SIZES`.
    """

    config: str
    tokenizer: Callable[[], PreTrainedTokenizerFast]
    settings: dict[str, Any]


def _train(tokenizer: Tokenizer, trainer_class: Any, tokens: dict[str, str], **trainer: Any) -> Tokenizer:
    trainer = {"vocab_size": 700, "special_tokens": list(dict.fromkeys(tokens.values())), "show_progress": False, **trainer}
    tokenizer.train_from_iterator(TEXTS, trainer_class(**trainer))
    return tokenizer


def _wrap(tokenizer: Tokenizer, class_name: str, tokens: dict[str, str], **settings: Any) -> PreTrainedTokenizerFast:
    named = {f"{role}_token": token for role, token in tokens.items()}
    return getattr(transformers, class_name)(tokenizer_object=tokenizer, **named, **settings)


def _template(tokenizer: Tokenizer, single: str) -> processors.TemplateProcessing:
    special = [(token, tokenizer.token_to_id(token)) for token in single.split() if token != "$A"]
    return processors.TemplateProcessing(single=single, special_tokens=special)


def word_piece(class_name: str, *, lowercase: bool) -> PreTrainedTokenizerFast:
    """WordPiece as BERT's; lower-casing strips accents as well."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    _train(tokenizer, trainers.WordPieceTrainer, BERT_TOKENS, initial_alphabet=ASCII)
    tokenizer.post_processor = _template(tokenizer, "[CLS] $A [SEP]")
    return _wrap(tokenizer, class_name, BERT_TOKENS, do_lower_case=lowercase, model_max_length=POSITIONS)


def byte_level(
    class_name: str, tokens: dict[str, str], *, prefix_space: bool, normalizer: Any = None, **settings: Any
) -> PreTrainedTokenizerFast:
    """Byte-level BPE, without anything around a text."""
    tokenizer = Tokenizer(models.BPE())
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=settings.pop("trim_offsets", False))
    _train(tokenizer, trainers.BpeTrainer, tokens, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    return _wrap(tokenizer, class_name, tokens, **settings)


def roberta(class_name: str, *, prefix_space: bool) -> PreTrainedTokenizerFast:
    """Byte-level BPE in RoBERTa's frame; offsets leave out the space in front."""
    made = byte_level(class_name, ROBERTA_TOKENS, prefix_space=prefix_space, add_prefix_space=prefix_space)
    ids = [(token, made.convert_tokens_to_ids(token)) for token in ("</s>", "<s>")]
    made.backend_tokenizer.post_processor = processors.RobertaProcessing(*ids, trim_offsets=True, add_prefix_space=prefix_space)
    # The table of positions has as many rows; two go to the padding and to the first id after it.
    made.model_max_length = POSITIONS - 2
    return made


def modern_bert() -> PreTrainedTokenizerFast:
    made = byte_level("PreTrainedTokenizerFast", BERT_TOKENS, prefix_space=False, normalizer=normalizers.NFC())
    made.backend_tokenizer.post_processor = _template(made.backend_tokenizer, "[CLS] $A [SEP]")
    return made


def unigram(
    class_name: str, tokens: dict[str, str], frame: str, *, lowercase: bool = False, **settings: Any
) -> PreTrainedTokenizerFast:
    """SentencePiece-like Unigram: NFKC, runs of spaces made one, and a mark in front of each word."""
    tokenizer = Tokenizer(models.Unigram())
    steps = [normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    if lowercase:
        steps[:1] = [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    _train(tokenizer, trainers.UnigramTrainer, tokens, unk_token=tokens["unk"], initial_alphabet=ASCII)
    tokenizer.post_processor = _template(tokenizer, frame)
    return _wrap(tokenizer, class_name, tokens, **settings)


FAMILIES: dict[str, Family] = {
    "bert": Family("BertConfig", lambda: word_piece("BertTokenizerFast", lowercase=True), {}),
    "roberta": Family("RobertaConfig", lambda: roberta("RobertaTokenizerFast", prefix_space=True), {}),
    "distilbert": Family(
        "DistilBertConfig",
        lambda: word_piece("DistilBertTokenizerFast", lowercase=False),
        {"hidden_dim": 64, "dropout": 0.0, "attention_dropout": 0.0},
    ),
    "albert": Family(
        "AlbertConfig",
        lambda: unigram("AlbertTokenizerFast", ALBERT_TOKENS, "[CLS] $A [SEP]", lowercase=True),
        {"embedding_size": 16},
    ),
    "electra": Family("ElectraConfig", lambda: word_piece("ElectraTokenizerFast", lowercase=True), {"embedding_size": 16}),
    "deberta-v2": Family(
        "DebertaV2Config",
        lambda: unigram("DebertaV2TokenizerFast", BERT_TOKENS, "[CLS] $A [SEP]"),
        {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "share_att_key": True, "norm_rel_ebd": "layer_norm"},
    ),
    "xlm-roberta": Family(
        "XLMRobertaConfig",
        lambda: unigram("XLMRobertaTokenizerFast", ROBERTA_TOKENS, "<s> $A </s>", model_max_length=POSITIONS - 2),
        {},
    ),
    "modernbert": Family(
        "ModernBertConfig", modern_bert, {"attention_dropout": 0.0, "local_attention": 16, "global_attn_every_n_layers": 2}
    ),
    "longformer": Family(
        "LongformerConfig", lambda: roberta("LongformerTokenizerFast", prefix_space=False), {"attention_window": 16}
    ),
    "gpt2": Family(
        "GPT2Config",
        lambda: byte_level("GPT2TokenizerFast", GPT2_TOKENS, prefix_space=False),
        {"n_inner": 64, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0},
    ),
    "t5": Family(
        "T5Config",
        lambda: unigram("T5TokenizerFast", T5_TOKENS, "$A </s>", extra_ids=4),
        {"d_kv": 8, "d_ff": 64, "dropout_rate": 0.0, "initializer_factor": 0.5},
    ),
}


def save_family(name: str, folder: Path) -> Path:
    """Write a checkpoint.

    name (str): one of `FAMILIES`.
    folder (Path): gets config.json, model.safetensors and the tokenizer's files.
    RETURNS (Path): the folder.
    """
    family = FAMILIES[name]
    tokenizer = family.tokenizer()
    tokenizer.save_pretrained(folder)
    config_class = getattr(transformers, family.config)
    ids = {f"{role}_token_id": getattr(tokenizer, f"{role}_token_id") for role in ("pad", "bos", "eos", "cls", "sep")}
    given = {role: i for role, i in ids.items() if i is not None}
    config = config_class(**{**SIZES, "vocab_size": len(tokenizer), **given, **family.settings})
    torch.manual_seed(0)
    transformers.AutoModel.from_config(config).eval().save_pretrained(folder)
    return folder
