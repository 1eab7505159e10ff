"""The BILUO tags of a set of labels, and which column of the emissions each has.

With K labels there are 4K + 1 columns: O, then B, I, L and U, each once per label in the order of the labels.
"""

from collections.abc import Sequence

import numpy


def n_tags(n_labels: int) -> int:
    """n_labels (int): number of entity labels. RETURNS (int): number of BILUO tags."""
    return 4 * n_labels + 1


def n_states(n_labels: int) -> int:
    """n_labels (int): number of entity labels. RETURNS (int): states between two entities: after O, or after a label."""
    return n_labels + 1


def tag_names(labels: Sequence[str]) -> list[str]:
    """labels (Sequence[str]): in order. RETURNS (list[str]): the tag of each emission column: `O`, `B-ORG`, ..."""
    return ["O", *(f"{prefix}-{label}" for prefix in "BILU" for label in labels)]


def allowed_tags(tags: Sequence[str | None], columns: dict[str, int]) -> numpy.ndarray:
    """Which tags each token's annotation leaves possible.

    tags (Sequence[str | None]): BILUO tag of each token, None or `-` where it was not annotated.
    columns (dict[str, int]): emission column of each tag.
    RETURNS (numpy.ndarray): (tokens, tags) bool; one True per annotated token, all True for the others.
    RAISES (KeyError): a tag that `columns` does not have.
    """
    allowed = numpy.zeros((len(tags), len(columns)), dtype=bool)
    for i, tag in enumerate(tags):
        if tag is None or tag == "-":
            allowed[i] = True
        else:
            allowed[i, columns[tag]] = True
    return allowed
