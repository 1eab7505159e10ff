"""`spacy-attention.ner_scorer.v1`: spaCy's scores of entities, and what they leave out."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy
from spacy.scorer import PRFScore, get_ner_prf
from spacy.tokens import Doc
from spacy.training import Example

from ..nn.calibration import brier_score, expected_calibration_error
from .labels import entity_scores
from .utterance import CharSpan, char_spans, compared_entities, has_entities_annotated


def make_ner_scorer() -> Callable[..., dict[str, Any]]:
    """RETURNS (Callable): see `score_ents`."""
    return score_ents


def score_ents(
    examples: Iterable[Example], *, spans_key: str | None = None, group: str | None = None, **kwargs: Any
) -> dict[str, Any]:
    """Score entities.

    spaCy's `ents_*`, for which texts without annotation do not count, and beside them `ents_unannotated`, how many those are;
    `ents_counts_per_type`; and, of the predicted entities that have a confidence, `ents_ece` and `ents_brier`.

    examples (Iterable[Example]): predictions beside gold.
    spans_key (str | None): of the gold, group (str | None): of the predictions in `doc.spans`, where entities can nest; then the scores
        are called `spans_KEY_*`.
    RETURNS (dict): the scores.
    """
    examples = list(examples)
    if spans_key is not None and group is not None:
        return score_nested(examples, spans_key=spans_key, group=group)
    annotated = [eg for eg in examples if has_entities_annotated(eg.reference)]
    counts = {label: {key: x[key] for key in ("tp", "fp", "fn")} for label, x in entity_scores(annotated).items()}
    judged = [pair for eg in annotated for pair in _confidences(eg)]
    return {
        **get_ner_prf(examples),
        "ents_counts_per_type": counts,
        "ents_unannotated": len(examples) - len(annotated),
        **_calibration("ents", judged),
    }


def score_nested(examples: Sequence[Example], *, spans_key: str, group: str) -> dict[str, Any]:
    """As `score_ents`, for spans in `doc.spans`: a prediction is right when bounds and label are those of a gold span.

    examples (Sequence[Example]): predictions beside gold; those without a gold group do not count.
    spans_key (str): of the gold. group (str): of the predictions.
    RETURNS (dict): `spans_KEY_p`, `_r`, `_f`, `_per_type`, `_counts_per_type`, `_unannotated`, `_ece`, `_brier`.
    """
    annotated = [eg for eg in examples if spans_key in eg.reference.spans]
    scores: dict[str, PRFScore] = defaultdict(PRFScore)
    judged: list[tuple[float, bool]] = []
    for eg in annotated:
        gold, found = char_spans(eg.reference, spans_key), _confident_spans(eg.predicted, group)
        for label in {span[2] for span in (*gold, *found)}:
            scores[label].score_set(*({span for span in spans if span[2] == label} for spans in (found, gold)))
        judged += [(confidence, span in gold) for span, confidence in found.items() if confidence is not None]
    total, name = sum(scores.values(), PRFScore()), f"spans_{spans_key}"
    return {
        f"{name}_p": total.precision,
        f"{name}_r": total.recall,
        f"{name}_f": total.fscore,
        f"{name}_per_type": {label: x.to_dict() for label, x in scores.items()},
        f"{name}_counts_per_type": {label: {"tp": x.tp, "fp": x.fp, "fn": x.fn} for label, x in sorted(scores.items())},
        f"{name}_unannotated": len(examples) - len(annotated),
        **_calibration(name, judged),
    }


def _confident_spans(doc: Doc, key: str) -> dict[CharSpan, float | None]:
    """Bounds and label of each span of a group, and its confidence where the group has one for each."""
    spans = [(span.start_char, span.end_char, span.label_) for span in doc.spans.get(key, ())]
    scores = doc.spans[key].attrs.get("scores", ()) if spans else ()
    return dict(zip(spans, map(float, scores) if len(scores) == len(spans) else [None] * len(spans), strict=True))


def _calibration(name: str, judged: list[tuple[float, bool]]) -> dict[str, float | None]:
    confidences, right = numpy.array(judged, dtype="float64").reshape(-1, 2).T
    return {
        f"{name}_ece": expected_calibration_error(confidences, right),
        f"{name}_brier": brier_score(confidences, right),
    }


def _confidences(eg: Example) -> list[tuple[float, bool]]:
    """Confidence of each predicted entity that can be compared, and whether it is right."""
    gold, guess = compared_entities(eg)
    spans = {(ent.start_char, ent.end_char, ent.label_): ent for ent in eg.predicted.ents}
    known = [(span, spans[span]._.confidence) for span in sorted(guess) if spans[span].has_extension("confidence")]
    return [(confidence, span in gold) for span, confidence in known if confidence is not None]
