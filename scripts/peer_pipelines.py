"""The pipelines that benchmark_peers.py compares: stock and ours, from the same weights, with heads that were trained a little.

The backbone stays as the checkpoint has it. Heads that were never trained could predict an entity on every word, and then time
would be spent where no real pipeline spends it; a few updates are enough for as many entities as in real use.
"""

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import spacy
import torch
from spacy import util
from spacy.cli.init_config import init_config
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from thinc.api import Config, fix_random_seed
from tqdm import tqdm
from transformers import AutoTokenizer, BertConfig, BertModel

from spacy_attention.convert.docs import fill_cats
from spacy_attention.convert.run import read_inputs

TRAIN = Path("assets/helpdesk/train.yml")
OURS = Path("configs/default.cfg")
STOCK_HEADS = ("ner", "textcat")
BATCH_DOCS = 16
HEAD_RATE = 0.003
# Name -> hidden size, layers, attention heads, width of the feed-forward layer.
SHAPES = {"minilm": (384, 6, 12, 1536), "roberta-base": (768, 12, 12, 3072)}


def stock_config(checkpoint: str) -> Config:
    """RETURNS (Config): spaCy's own GPU config for `ner` and `textcat`, with this checkpoint. checkpoint (str): its folder."""
    config = init_config(lang="en", pipeline=list(STOCK_HEADS), optimize="efficiency", gpu=True)
    config["components"]["transformer"]["model"]["name"] = checkpoint
    return config


def our_config(checkpoint: str, precision: str) -> Config:
    """RETURNS (Config): the recommended recipe. checkpoint (str): its folder. precision (str): of backbone and heads."""
    config = util.load_config(OURS, interpolate=True)
    config["components"]["attention_backbone"]["model"]["name"] = checkpoint
    for component in config["components"].values():
        component["model"]["precision"] = precision
    return config


def our_backbone_config(checkpoint: str, precision: str) -> Config:
    """RETURNS (Config): as `stock_config`, the transformer replaced by ours. checkpoint, precision (str): as `our_config`."""
    config = stock_config(checkpoint)
    backbone = our_config(checkpoint, precision)["components"]["attention_backbone"]
    config["components"]["transformer"] = backbone
    return config


def build_pipelines(folder: Path, checkpoint: str, *, steps: int) -> None:
    """Build and save every pipeline.

    folder (Path): gets one folder per pipeline.
    checkpoint (str): folder of the weights.
    steps (int): updates of the heads.
    """
    folder.mkdir(parents=True, exist_ok=True)
    docs = read_docs([TRAIN])
    stock = build(stock_config(checkpoint), docs, shared="transformer", steps=steps)
    stock.to_disk(folder / "stock")
    # The backbone was not trained and gives the same vectors, so the heads fit.
    on_ours = build(our_backbone_config(checkpoint, "bfloat16"), docs, shared="transformer", steps=0)
    for name in STOCK_HEADS:
        on_ours.get_pipe(name).model.from_bytes(stock.get_pipe(name).model.to_bytes())
    on_ours.to_disk(folder / "ours-bfloat16-stock-heads")
    ours = build(our_config(checkpoint, "float32"), docs, shared="attention_backbone", steps=steps)
    ours.to_disk(folder / "ours-float32")
    heads = [name for name in ours.pipe_names if name != "attention_backbone"]
    for precision in ("float32", "bfloat16"):
        changed = {f"components.{name}.model.precision": precision for name in ours.pipe_names}
        spacy.load(folder / "ours-float32", config=changed).to_disk(folder / f"ours-{precision}")
        spacy.load(folder / f"ours-{precision}", exclude=heads).to_disk(folder / f"backbone-{precision}")


def read_docs(files: list[Path]) -> list[Doc]:
    """RETURNS (list[Doc]): annotated documents in a fixed random order. files (list[Path]): that `convert` reads."""
    entries = read_inputs(files, spacy.blank("en"), progress=False).entries
    fill_cats(entries)
    docs = [entry.doc for entry in entries]
    random.Random(0).shuffle(docs)
    return docs


def build(config: Config, docs: list[Doc], *, shared: str, steps: int) -> Language:
    """Build a pipeline, and train its heads on a frozen backbone.

    config (Config): of training.
    docs (list[Doc]): annotated documents; labels come from all of them.
    shared (str): the backbone's component.
    steps (int): updates.
    RETURNS (Language): the pipeline.
    """
    rates = config["training"]["optimizer"]
    rates["learn_rate"] = HEAD_RATE
    if "head_rate" in rates:
        rates["head_rate"] = HEAD_RATE
    nlp, optimizer = initialize(config, docs)
    for batch in tqdm(list(itertools.islice(endless_batches(nlp, docs, BATCH_DOCS), steps)), desc=" + ".join(nlp.pipe_names)):
        train_step(nlp, batch, optimizer, frozen=[shared])
    return nlp


def initialize(config: Config, docs: list[Doc]) -> tuple[Language, Any]:
    """RETURNS (tuple[Language, Optimizer]): pipeline and its optimizer. config (Config): of both. docs (list[Doc]): give the labels."""
    fix_random_seed(0)
    nlp = util.load_model_from_config(config, auto_fill=True)
    examples = [Example(nlp.make_doc(doc.text), doc) for doc in docs]
    return nlp, nlp.initialize(lambda: examples)


def endless_batches(nlp: Language, docs: list[Doc], size: int) -> Iterator[list[Example]]:
    """RETURNS (Iterator): batches of new examples, round and round. nlp (Language). docs (list[Doc]): gold. size (int): per batch."""
    cycle = itertools.cycle(docs)
    while True:
        yield [Example(nlp.make_doc(doc.text), doc) for doc in itertools.islice(cycle, size)]


def train_step(nlp: Language, examples: list[Example], optimizer: Any, *, frozen: list[str]) -> None:
    """One step as `spacy train` does it: update all, then finish all.

    nlp (Language): the pipeline.
    examples (list[Example]): the batch.
    optimizer (Optimizer): thinc's or ours.
    frozen (list[str]): components that only annotate.
    """
    nlp.update(examples, sgd=False, drop=0.1, exclude=frozen, annotates=frozen)  # type: ignore[arg-type]
    for name, pipe in nlp.pipeline:
        if name not in frozen and hasattr(pipe, "finish_update"):
            pipe.finish_update(optimizer)
    optimizer.step_schedules()


def random_checkpoint(source: str, folder: Path, shape: str) -> str:
    """Save a BERT of random weights, for timing a size whose weights are not at hand.

    source (str): checkpoint folder whose tokenizer it takes.
    folder (Path): where to.
    shape (str): key of `SHAPES`.
    RETURNS (str): the folder.
    """
    tokenizer = AutoTokenizer.from_pretrained(source, use_fast=True)
    hidden, layers, heads, inner = SHAPES[shape]
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=inner,
    )
    BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)
