"""Losses of the classifier: sums over documents, in which what is not known adds nothing."""

import torch
from torch import Tensor
from torch.nn import functional as F


def exclusive_loss(logits: Tensor, gold: Tensor, *, weights: Tensor | None = None, smoothing: float = 0.0) -> Tensor:
    """-log of the probability that the softmax gives to the labels that the annotation leaves possible.

    With one label at 1 that is the usual cross-entropy; with only zeros known it is -log(1 - the sum of their probabilities);
    with nothing known it is 0.

    logits (Tensor): (documents, labels).
    gold (Tensor): (documents, labels), at most one 1 in a row, 0 where a label is known to be wrong, NaN where nothing is known.
    weights (Tensor | None): (labels,), how much a document of each label counts; others count 1.
    smoothing (float): share in [0, 1) of a known label that is spread over all labels (Szegedy et al. 2016, section 7).
    RETURNS (Tensor): scalar.
    """
    true = gold >= 0.5
    possible = torch.where(true.any(1, keepdim=True), true, gold.isnan())
    # All labels known to be wrong is a contradiction; such a row adds nothing.
    possible = possible | ~possible.any(1, keepdim=True)
    kept = logits.masked_fill(~possible, float("-inf")).logsumexp(1)
    total = logits.logsumexp(1)
    losses = total - kept
    known = true.any(1)
    if smoothing:
        losses = torch.where(known, (1 - smoothing) * losses + smoothing * (total - logits.mean(1)), losses)
    if weights is not None:
        losses = losses * torch.where(known, true.to(weights) @ weights, 1.0)
    return losses.sum()


def binary_loss(logits: Tensor, gold: Tensor, *, weights: Tensor | None = None, smoothing: float = 0.0) -> Tensor:
    """Binary cross-entropy of each label on its own.

    logits (Tensor): (documents, labels).
    gold (Tensor): (documents, labels) in [0, 1], NaN where nothing is known.
    weights (Tensor | None): (2, labels), how much a label counts where it is wrong, and where it is right.
    smoothing (float): as in `exclusive_loss`, over right and wrong.
    RETURNS (Tensor): scalar.
    """
    known = ~gold.isnan()
    gold = gold.nan_to_num(0.0)
    counts = None if weights is None else torch.lerp(weights[0], weights[1], gold)
    target = gold * (1 - smoothing) + smoothing / 2
    losses = F.binary_cross_entropy_with_logits(logits, target, counts, reduction="none")
    return losses.masked_fill(~known, 0.0).sum()
