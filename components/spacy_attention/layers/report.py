"""What the backbone did with a document, in numbers; so that nothing is lost unseen."""

import numpy

from .layout import Layout


def make_reports(layout: Layout) -> list[dict[str, int]]:
    """Count per document.

    layout (Layout): of a batch.
    RETURNS (list[dict]): per document `pieces` (that were read), `windows`, `tokens_without_pieces` (whose vector is zero),
        `special_text` (stretches of text that look like a special token and were read as text), `truncated_pieces` (cut off).
    """
    document = numpy.repeat(numpy.arange(len(layout.n_tokens)), layout.n_tokens)
    without = numpy.bincount(document[layout.pieces_per_token == 0], minlength=len(layout.n_tokens))
    columns = {
        "pieces": layout.n_pieces,
        "windows": layout.windows.per_doc,
        "tokens_without_pieces": without,
        "special_text": [p.special_text for p in layout.pieces],
        "truncated_pieces": layout.truncated,
    }
    return [dict(zip(columns, map(int, row), strict=True)) for row in zip(*columns.values(), strict=True)]
