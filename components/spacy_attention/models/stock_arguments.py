"""The arguments of `spacy-transformers.TransformerModel.v3` that a config brings along when its architecture line is changed.

What asks for something that our backbone does as well, or in its own way, is accepted. What would silently be done differently from
what the config says is refused by name.
"""

import functools
from collections.abc import Callable
from typing import Any

from spacy_transformers.span_getters import get_doc_spans, get_strided_spans

from ..errors import Errors

# These only cut a text in parts that fit the transformer, which is what our windows do.
CUTTING_SPANS = (get_strided_spans, get_doc_spans)


def check_span_getter(get_spans: Callable[..., Any] | None) -> None:
    """Accept the getters that cover every text from end to end.

    get_spans (Callable | None): from spaCy's registry of span getters.
    RAISES (ValueError): E112 for one that chooses what is read together: sentences, or a function of the user's.
    """
    function = get_spans.func if isinstance(get_spans, functools.partial) else get_spans
    if function is None or function in CUTTING_SPANS:
        return
    name = getattr(function, "__qualname__", type(function).__qualname__)
    raise ValueError(Errors.E112.format(found=f"{function.__module__}.{name}"))


def check_grad_scaler(grad_scaler_config: dict[str, Any] | None) -> None:
    """Accept no loss scaling.

    grad_scaler_config (dict | None): settings of torch's gradient scaler.
    RAISES (ValueError): E113 for settings, unless they switch it off.
    """
    if grad_scaler_config and grad_scaler_config.get("enabled", True):
        raise ValueError(Errors.E113.format(found=grad_scaler_config))


def choose_precision(precision: str, mixed_precision: bool) -> str:
    """precision (str): of our own argument; one other than `auto` wins. mixed_precision (bool): asks for a half-precision format.
    RETURNS (str): `auto`, `float32` or `bfloat16`.
    """
    return "bfloat16" if mixed_precision and precision == "auto" else precision


def tokenizer_settings(tokenizer_config: dict[str, Any]) -> dict[str, Any]:
    """Take out the choice between fast and slow tokenizers, which stock configs spell out: ours are always fast.

    tokenizer_config (dict): of the config. RETURNS (dict): a copy.
    RAISES (ValueError): E106 for a slow one.
    """
    settings = dict(tokenizer_config)
    if not settings.pop("use_fast", True):
        expected = "without `use_fast = false`, since only fast tokenizers give character offsets"
        raise ValueError(Errors.E106.format(field="tokenizer_config", expected=expected, found=tokenizer_config))
    return settings
