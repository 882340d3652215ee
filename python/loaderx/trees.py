"""Batches as trees: what a transform makes of each array in one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Leaf = Callable[[npt.NDArray[Any], str], Any]


def mapped(batch: Any, leaf: Leaf, path: str = "batch") -> Any:
    """`batch` with `leaf(array, its path)` in place of each array.

    Mappings become dicts; lists, tuples and named tuples (`Packed`) stay what they are. Whatever is neither stays as it is.
    """
    if isinstance(batch, np.ndarray):
        return leaf(batch, path)
    if isinstance(batch, Mapping):
        return {name: mapped(part, leaf, f"{path}[{name!r}]") for name, part in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        fields = zip(batch._fields, batch, strict=True)
        return type(batch)(*(mapped(part, leaf, f"{path}.{field}") for field, part in fields))
    if isinstance(batch, (list, tuple)):
        return type(batch)(mapped(part, leaf, f"{path}[{i}]") for i, part in enumerate(batch))
    return batch
