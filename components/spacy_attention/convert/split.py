"""Divides documents into two parts that have the same share of each class."""

import random
from collections import Counter
from collections.abc import Sequence

from ..errors import Errors


def stratified_split(labels: Sequence[str], n_held_out: int, seed: int) -> tuple[list[int], list[int]]:
    """Hold out documents, from each class in proportion to its size.

    Shares are rounded by largest remainder, ties by label. Only `random.Random(seed).random()` is drawn:
    its sequence is the same in every Python version.

    labels (Sequence[str]): one class per document.
    n_held_out (int): documents to hold out.
    seed (int): another seed, another choice.
    RETURNS (tuple[list[int], list[int]]): indices kept and held out, each in the order of the documents.
    RAISES (ValueError): E412 if there are fewer documents than to be held out.
    """
    if not 0 <= n_held_out <= len(labels):
        raise ValueError(Errors.E412.format(n=n_held_out, total=len(labels)))
    quotas = _quotas(Counter(labels), n_held_out)
    rng = random.Random(seed)
    drawn = sorted((rng.random(), i) for i in range(len(labels)))
    held_out = set()
    for _, i in drawn:
        if quotas[labels[i]] > 0:
            quotas[labels[i]] -= 1
            held_out.add(i)
    kept = [i for i in range(len(labels)) if i not in held_out]
    return kept, sorted(held_out)


def _quotas(counts: Counter[str], n: int) -> dict[str, int]:
    # Whole numbers only: remainders of count * n / total are compared without rounding.
    total = sum(counts.values())
    quotas = {label: count * n // total for label, count in counts.items()} if total else {}
    missing = n - sum(quotas.values())
    by_remainder = sorted(counts, key=lambda label: (-(counts[label] * n % total), label))
    for label in by_remainder[:missing]:
        quotas[label] += 1
    return quotas
