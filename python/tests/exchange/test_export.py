"""The published package opens, reads and changes what `export` writes, ragged stores too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from loaderx import _core
from loaderx.dataset import DenseDataset, RaggedDataset
from loaderx.generations import export
from loaderx.utils import from_iterator, from_numpy
from support import CODECS, all_same, same, swap_last

from .published import Published
from .samples import DENSE, RAGGED_SHAPES, dense_rows, ragged_records, stack

COUNT = 100
EMPTY = [(3,), (0,), (2, 2), (0, 4), (), (1, 2, 3, 1, 1, 1, 2), (0,), (5,)]
"""Shapes that the published package does not write, or not as they are."""


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("shapes", RAGGED_SHAPES)
def test_ragged(published: Published, dictionary: bytes, tmp_path: Path, shapes: str, codec: str) -> None:
    records = ragged_records(shapes)
    dict_bytes = dictionary if codec == "zstd_dict" else None
    from_iterator(tmp_path / "ours", records, np.int32, codec=codec, dict_bytes=dict_bytes)
    with RaggedDataset(tmp_path / "ours") as ours:
        ours.delete([1, 4])
    records = swap_last(records, [1, 4])
    theirs = tmp_path / "theirs"
    assert export(tmp_path / "ours", theirs) == len(records)
    assert all_same(published.read_ragged(theirs), records)

    published.append("ragged", theirs, records[:3])
    published.delete("ragged", theirs, [0, 2])
    published.compact("ragged", theirs)
    records = swap_last([*records, *records[:3]], [0, 2])
    assert all_same(published.read_ragged(theirs), records)
    with RaggedDataset(theirs) as back:
        assert all_same(back[:], records)


@pytest.mark.parametrize("codec", ["raw", "zstd"])
def test_records_without_items_or_dimensions(published: Published, tmp_path: Path, codec: str) -> None:
    records: list[npt.NDArray[np.int32]] = [
        np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape) for shape in EMPTY
    ]
    from_iterator(tmp_path / "ours", records, np.int32, codec=codec)
    theirs = tmp_path / "theirs"
    export(tmp_path / "ours", theirs)
    assert all_same(published.read_ragged(theirs), records)
    for index in range(len(records)):
        assert all_same(published.read_ragged(theirs, [index]), [records[index]])
    published.append("ragged", theirs, records[:1])
    published.delete("ragged", theirs, [1, 2])
    published.compact("ragged", theirs)
    records = swap_last([*records, records[0]], [1, 2])
    assert all_same(published.read_ragged(theirs), records)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", DENSE)
def test_dense(published: Published, dictionary: bytes, tmp_path: Path, name: str, codec: str) -> None:
    rows = dense_rows(*DENSE[name], COUNT)
    dict_bytes = dictionary if codec == "zstd_dict" else None
    from_numpy(tmp_path / "ours", rows, codec=codec, dict_bytes=dict_bytes)
    with DenseDataset(tmp_path / "ours") as ours:
        ours.delete([0, 50])
    rows = stack(swap_last(rows, [0, 50]), rows)
    theirs = tmp_path / "theirs"
    assert export(tmp_path / "ours", theirs) == len(rows)
    assert same(published.read_dense(theirs), rows)
    assert not _core.Store.open(theirs, read_only=True).sums_known
    published.append("dense", theirs, rows[:5])
    published.delete("dense", theirs, [7])
    assert same(published.read_dense(theirs), stack(swap_last([*rows, *rows[:5]], [7]), rows))


def test_what_it_wrote_itself(published: Published, tmp_path: Path) -> None:
    """A ragged store of its own, changed by this project, goes back."""
    records = ragged_records("mixed-rank")
    published.write_ragged(tmp_path / "store", records, "<i4", "zstd")
    export(tmp_path / "store", tmp_path / "unchanged")
    assert all_same(published.read_ragged(tmp_path / "unchanged"), records)
    with RaggedDataset(tmp_path / "store") as ours:
        ours.append(records[:2])
    export(tmp_path / "store", tmp_path / "back")
    assert all_same(published.read_ragged(tmp_path / "back"), [*records, *records[:2]])
