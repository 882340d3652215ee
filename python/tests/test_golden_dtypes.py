"""Stores of each dtype, as they were first written, read as they did, and are written the same today."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dtype_samples import bits
from golden_dtypes import DTYPES, LOCK, SHAPES, unpack, values, write
from loaderx import verify
from loaderx.dataset import DenseDataset, RaggedDataset
from loaderx.dataset.spelling import spelled
from support import contents


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("golden")
    unpack(folder)
    return folder


def test_each_dtype_has_a_store(golden: Path) -> None:
    assert {path.name for path in golden.iterdir()} == set(DTYPES)


@pytest.mark.parametrize("name", DTYPES)
def test_it_reads_as_it_did(golden: Path, name: str) -> None:
    dtype = np.dtype(DTYPES[name])
    with DenseDataset(golden / name / "dense", read_only=True) as dense:
        assert spelled(dense.dtype) == spelled(dtype)
        assert (dense.dtype, dense.item_shape) == (dtype, (3,))
        assert bits(dense[:]) == bits(values(name, (2, 3)))
    with RaggedDataset(golden / name / "ragged", read_only=True) as ragged:
        assert ragged.dtype == dtype
        assert [record.shape for record in ragged] == SHAPES
        assert [bits(record) for record in ragged] == [bits(values(name, shape)) for shape in SHAPES]
    for kind in ("dense", "ragged"):
        assert verify(golden / name / kind).ok


@pytest.mark.parametrize("name", DTYPES)
def test_it_is_written_as_it_was(golden: Path, tmp_path: Path, name: str) -> None:
    write(tmp_path, name)
    assert contents(tmp_path / name, but=LOCK) == contents(golden / name)
