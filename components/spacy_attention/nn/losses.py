"""Losses of the classifier: sums over documents, in which what is not known adds nothing."""

import torch
from torch import Tensor
from torch.nn import functional as F


def exclusive_loss(logits: Tensor, gold: Tensor) -> Tensor:
    """-log of the probability that the softmax gives to the labels that the annotation leaves possible.

    With one label at 1 that is the usual cross-entropy; with only zeros known it is -log(1 - the sum of their probabilities);
    with nothing known it is 0.

    logits (Tensor): (documents, labels).
    gold (Tensor): (documents, labels), at most one 1 in a row, 0 where a label is known to be wrong, NaN where nothing is known.
    RETURNS (Tensor): scalar.
    """
    true = gold >= 0.5
    possible = torch.where(true.any(1, keepdim=True), true, gold.isnan())
    # All labels known to be wrong is a contradiction; such a row adds nothing.
    possible = possible | ~possible.any(1, keepdim=True)
    kept = logits.masked_fill(~possible, float("-inf")).logsumexp(1)
    return (logits.logsumexp(1) - kept).sum()


def binary_loss(logits: Tensor, gold: Tensor) -> Tensor:
    """Binary cross-entropy of each label on its own.

    logits (Tensor): (documents, labels).
    gold (Tensor): (documents, labels) in [0, 1], NaN where nothing is known.
    RETURNS (Tensor): scalar.
    """
    known = ~gold.isnan()
    losses = F.binary_cross_entropy_with_logits(logits, gold.nan_to_num(0.0), reduction="none")
    return losses.masked_fill(~known, 0.0).sum()
