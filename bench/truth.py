"""What every engine stores and every answer is compared with: a folder of .npy files, and `truth.json` that says where records lie.

Imports NumPy only: it runs in the environment of each engine.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Packed: TypeAlias = tuple[Array, Array]
"""Values one after another, and the item offset of each record, the last one being the end."""


class DenseTruth:
    """Records of one shape: the rows of an array."""

    def __init__(self, folder: Path) -> None:
        self.rows: Array = np.load(folder / "rows.npy", mmap_mode="r")

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def records(self) -> Array:
        """What an engine's `write` gets."""
        return self.rows

    def check(self, indices: Array, got: Any) -> None:
        want = self.rows[indices]
        if got.dtype != want.dtype or got.shape != want.shape or got.tobytes() != want.tobytes():
            raise ValueError(f"a wrong answer for records {indices[0]}, {indices[1:2]}, ...")


class RaggedTruth:
    """Records of their own lengths."""

    def __init__(self, folder: Path) -> None:
        self.values: Array = np.load(folder / "values.npy", mmap_mode="r")
        self.offsets: Array = np.load(folder / "offsets.npy")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def records(self) -> Packed:
        return self.values, self.offsets

    def check(self, indices: Array, got: Sequence[Array] | Packed) -> None:
        """An engine gives the packed values and their offsets, or a list of records."""
        want = [self.values[self.offsets[i] : self.offsets[i + 1]] for i in indices]
        if isinstance(got, tuple):
            values, offsets = got
            got = [values[offsets[i] : offsets[i + 1]] for i in range(len(indices))]
            if len(offsets) != len(indices) + 1 or offsets[-1] != len(values):
                raise ValueError("offsets that do not fit the values")
        same = len(got) == len(want) and all(
            g.dtype == w.dtype and np.array_equal(g, w) for g, w in zip(got, want, strict=True)
        )
        if not same:
            raise ValueError(f"a wrong answer for records {indices[0]}, {indices[1:2]}, ...")


def load(folder: Path) -> DenseTruth | RaggedTruth:
    return DenseTruth(folder) if (folder / "rows.npy").exists() else RaggedTruth(folder)


def describe(folder: Path) -> None:
    """Write `truth.json`, which the limit engine reads instead of NumPy's headers."""
    if (folder / "rows.npy").exists():
        rows = np.load(folder / "rows.npy", mmap_mode="r")
        nbytes = rows.dtype.itemsize * int(np.prod(rows.shape[1:], dtype=np.int64))
        facts = {"data": "rows.npy", "data_at": rows.offset, "count": len(rows), "record_bytes": nbytes}
    else:
        values, offsets = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("values", "offsets"))
        facts = {"data": "values.npy", "data_at": values.offset, "count": len(offsets) - 1}
        facts |= {"offsets": "offsets.npy", "offsets_at": offsets.offset, "itemsize": values.dtype.itemsize}
    (folder / "truth.json").write_text(json.dumps(facts))
