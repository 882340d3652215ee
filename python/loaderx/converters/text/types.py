"""What the texts of a column are: found from all of them, or given; and making values of them."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from loaderx.converters.source import Array
from loaderx.dataset.dtypes import described
from loaderx.dataset.packed import Packed

TEXT_DTYPE = None
"""The dtype of a column of text, which is a ragged stream."""
BOOLS = {"true": True, "false": False, "True": True, "False": False, "TRUE": True, "FALSE": False}
# "007" is no number: it would lose what it says.
INTEGER = re.compile(r"[+-]?(0|[1-9][0-9]*)\Z", re.ASCII)
FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\Z|[+-]?(nan|NaN|inf|Inf|Infinity)\Z", re.ASCII)
DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z", re.ASCII)
MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?\Z", re.ASCII)
LEADING_ZEROS = re.compile(r"[+-]?0[0-9]", re.ASCII)
LONGEST_INTEGER = len(str(-(1 << 63)))
EXACT = 1 << 53
"""From here on not every whole number is a float64."""


def is_integer(text: str) -> bool:
    """Whether a text is an int64, and nothing of it would be lost."""
    return len(text) <= LONGEST_INTEGER and bool(INTEGER.match(text)) and -(1 << 63) <= int(text) < 1 << 63


def is_float(text: str) -> bool:
    """Whether a text is a number, and its float64 has the digits that it has."""
    if not FLOAT.match(text) or LEADING_ZEROS.match(text):
        return False
    if text.lstrip("+-").isdigit():
        return is_integer(text) and abs(int(text)) <= EXACT
    return "n" in text.lower() or is_printed(text, float(text))


def is_printed(text: str, value: float) -> bool:
    """Whether a float64 gives a decimal back, when it is printed with as many digits or with as few as tell it from others."""
    digits = digits_of(text)
    if len(digits) <= sys.float_info.dig and (sys.float_info.min <= abs(value) < math.inf or not digits):
        return True
    return not math.isinf(value) and (
        digits == digits_of(f"{value:.{len(digits) - 1}e}") or digits == digits_of(repr(value))
    )


def digits_of(number: str) -> str:
    """The digits of a decimal without zeros at either end."""
    return number.lower().partition("e")[0].replace(".", "").lstrip("+-").strip("0")


def is_date(pattern: re.Pattern[str], dtype: str) -> Callable[[str], bool]:
    """Whether a text is such a date, and there is that day."""

    def fits(text: str) -> bool:
        try:
            return bool(pattern.match(text)) and not np.isnat(np.datetime64(text).astype(dtype))
        except ValueError:
            return False

    return fits


KINDS: dict[str, Callable[[str], bool]] = {
    "?": BOOLS.__contains__,
    "<i8": is_integer,
    "<f8": is_float,
    "<M8[D]": is_date(DAY, "M8[D]"),
    "<M8[us]": is_date(MOMENT, "M8[us]"),
}


class Guess:
    """What a column may be, after all that was seen of it."""

    def __init__(self) -> None:
        self._kinds = dict(KINDS)
        self._seen = False

    def see(self, texts: set[str]) -> None:
        """Some of its texts."""
        self._seen = self._seen or bool(texts)
        for name, fits in list(self._kinds.items()):
            if not all(map(fits, texts)):
                del self._kinds[name]

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The narrowest kind that holds all; None for text."""
        return np.dtype(next(iter(self._kinds))) if self._kinds and self._seen else TEXT_DTYPE


def values_of(texts: Sequence[str], dtype: np.dtype[Any], where: str, first: int) -> Array:
    """The values of texts. ValueError that names the record for one that the dtype doesn't hold."""
    try:
        return parsed(texts, dtype)
    except (ValueError, OverflowError):
        for at, text in enumerate(texts):
            try:
                parsed([text], dtype)
            except (ValueError, OverflowError) as error:
                raise ValueError(f"{where}, record {first + at}: {text!r} is no {described(dtype)}: {error}") from None
        raise


def parsed(texts: Sequence[str], dtype: np.dtype[Any]) -> Array:
    """The values of texts."""
    if dtype.kind == "b":
        unknown = next((text for text in texts if text not in BOOLS), None)
        if unknown is not None:
            raise ValueError("expected true or false")
        return np.array([BOOLS[text] for text in texts], dtype)
    if dtype.kind in "iu":
        if not all(map(INTEGER.match, texts)):
            raise ValueError("expected a whole number")
        return np.array([int(text) for text in texts], dtype)
    if dtype.kind == "f":
        if not all(map(FLOAT.match, texts)):
            raise ValueError("expected a number")
        return floats(texts, dtype)
    if dtype.kind in "mM":
        values = np.array(texts).astype(dtype) if texts else np.zeros(0, dtype)
        if dtype.kind == "M" and texts and (np.array(texts, "M8") != values)[~np.isnat(values)].any():
            raise ValueError("finer than its unit")
        return values
    encoded = np.array([text.encode() for text in texts] if dtype.kind == "S" else texts)
    if encoded.dtype.itemsize > dtype.itemsize and len(texts):
        raise ValueError(f"longer than {described(dtype)}")
    return encoded.astype(dtype)


def floats(texts: Sequence[str], dtype: np.dtype[Any]) -> Array:
    """The numbers of texts. ValueError for one that is beyond all of the dtype but infinity."""
    with np.errstate(over="ignore"):
        values = np.array([float(text) for text in texts], np.float64).astype(dtype)
    if any("n" not in texts[at].lower() for at in np.flatnonzero(np.isinf(values)).tolist()):
        raise ValueError("out of bounds")
    return values


def packed_text(texts: Sequence[str]) -> Packed:
    """Texts as UTF-8."""
    encoded = [text.encode() for text in texts]
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in encoded], dtype=np.int64)]).astype(np.int64)
    return Packed(np.frombuffer(b"".join(encoded), np.uint8), offsets, None)
