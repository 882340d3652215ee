"""What a data set is to the verification."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

# Dense: one array, a record a row of axis 0. Ragged: a list, an array a record.
Records = npt.NDArray[Any] | list[npt.NDArray[Any]]


@dataclass(frozen=True)
class Source:
    name: str
    package: str
    load: Callable[[Path], Records]
    """Takes the folder that the package was unpacked into."""
    batch_size: int = 256

    def sample(self, records: Records, limit: int | None) -> Records:
        """Evenly spaced records of about `limit` bytes in all; `None` means every record."""
        total = byte_count(records)
        if limit is None or total <= limit:
            return records
        picked = np.linspace(0, len(records) - 1, max(1, len(records) * limit // total)).astype(np.int64)
        return records[picked] if isinstance(records, np.ndarray) else [records[i] for i in picked]


def byte_count(records: Records) -> int:
    return records.nbytes if isinstance(records, np.ndarray) else sum(record.nbytes for record in records)
