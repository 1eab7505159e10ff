"""The batches of a training in the order in which spaCy's own loop makes them, and that order again after an interruption."""

import random
import warnings
from collections.abc import Callable, Iterable, Iterator

from spacy.language import Language
from spacy.training import Example

from ..errors import Errors, Warnings
from .random_state import OwnRandom

Corpus = Callable[[Language], Iterable[Example]]
Batcher = Callable[[Iterable[Example]], Iterable[list[Example]]]


def make_batches(
    nlp: Language, corpus: Corpus, batcher: Batcher, *, max_epochs: int, own_random: OwnRandom
) -> Iterator[tuple[int, list[Example]]]:
    """Go through the corpus, epoch by epoch.

    All that is random here is drawn from a state of its own. So the same batches come again from the same beginning, whatever the
    updates between them draw.

    nlp (Language): makes the documents.
    corpus (Callable): gives the examples; they are kept and shuffled, or read anew in each epoch where `max_epochs` is -1.
    batcher (Callable): from the config.
    max_epochs (int): 0 for no end, -1 for a corpus that is not to be kept.
    own_random (OwnRandom): as it was at the beginning.
    YIELDS (tuple): number of the epoch, and the batch.
    RAISES (ValueError): E625 for a corpus without examples. Warns: W604 of a batcher that leaves documents out.
    """
    with own_random.use():
        examples = [] if max_epochs < 0 else list(corpus(nlp))
    if max_epochs >= 0 and not examples:
        raise ValueError(Errors.E625)
    epoch = 0
    while max_epochs < 1 or epoch != max_epochs:
        with own_random.use():
            if max_epochs >= 0:
                random.shuffle(examples)
            batches = iter(batcher(examples if max_epochs >= 0 else corpus(nlp)))
        n_drawn = 0
        while (batch := _draw(batches, own_random)) is not None:
            yield epoch, list(batch)
            n_drawn += len(batch)
        if epoch == 0 and n_drawn < len(examples):
            warnings.warn(Warnings.W604.format(lost=len(examples) - n_drawn, total=len(examples)), stacklevel=2)
        epoch += 1


def _draw(batches: Iterator[list[Example]], own_random: OwnRandom) -> list[Example] | None:
    with own_random.use():
        return next(batches, None)
