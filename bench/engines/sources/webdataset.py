"""Tar shards of .npy members, one a record and field, written by Python's own tarfile."""

from __future__ import annotations

import io
import itertools
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

PACKAGE = "numpy"
SHARD = 10_000
Array = npt.NDArray[Any]


def dense(folder: Path, rows: Array, labels: Array) -> Path:
    return write(folder, ({"images.npy": row, "cls": label} for row, label in zip(rows, labels, strict=True)))


def ragged(folder: Path, values: Array, offsets: Array) -> Path:
    ends = offsets.tolist()
    return write(folder, ({"tokens.npy": values[a:b]} for a, b in itertools.pairwise(ends)))


def write(folder: Path, samples: Iterable[dict[str, Array]]) -> Path:
    (folder / "shards").mkdir()
    numbered = enumerate(samples)
    for shard in itertools.count():
        some = list(itertools.islice(numbered, SHARD))
        if not some:
            return folder / "shards"
        with tarfile.open(folder / "shards" / f"{shard:06}.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
            for name, content in itertools.chain.from_iterable(itertools.starmap(members, some)):
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    raise AssertionError


def members(number: int, sample: dict[str, Array]) -> Iterator[tuple[str, bytes]]:
    for field, value in sample.items():
        if field.endswith(".npy"):
            buffer = io.BytesIO()
            np.save(buffer, value)
            yield f"{number:08}.{field}", buffer.getvalue()
        else:
            yield f"{number:08}.{field}", str(int(value)).encode()
