"""What the published package does with stores whose dtype is no plain one, and what it makes of such dtypes itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from loaderx.dataset import DenseDataset
from loaderx.utils import from_numpy
from support import CODECS

from .published import Published, PublishedError
from .samples import dense_rows

STRUCTURED = np.dtype(
    {
        "names": ["id", "in", "when", "list"],
        "formats": ["<i4", np.dtype([("x", ">f8"), ("t", "S3")]), "<M8[s]", ("<u2", (2, 3))],
        "offsets": [1, 8, 20, 28],
        "itemsize": 48,
    }
)


def assert_equal(found: npt.NDArray[Any], expected: npt.NDArray[Any]) -> None:
    """The same fields. What lies between them gets lost on the way through an .npz file."""
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("codec", CODECS)
def test_it_reads_and_changes_structured_stores(
    published: Published, dictionary: bytes, tmp_path: Path, codec: str
) -> None:
    rows = np.zeros(30, STRUCTURED)
    rows["id"], rows["in"]["x"], rows["list"][:, 1, 2] = np.arange(30), np.linspace(0, 1, 30), 7
    from_numpy(tmp_path / "store", rows, codec=codec, dict_bytes=dictionary if codec == "zstd_dict" else None)
    assert_equal(published.read_dense(tmp_path / "store"), rows)
    published.append("dense", tmp_path / "store", rows[:3])
    with DenseDataset(tmp_path / "store") as ours:
        assert ours.dtype == STRUCTURED
        assert_equal(ours[:], rows[[*range(30), 0, 1, 2]])
    published.delete("dense", tmp_path / "store", [5])
    published.compact("dense", tmp_path / "store")
    with DenseDataset(tmp_path / "store") as ours:
        assert_equal(ours[:], rows[[*range(5), 2, *range(6, 30), 0, 1]])


@pytest.mark.parametrize(
    "dtype",
    [ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, [("w", ml_dtypes.bfloat16)], [("p", [("x", "<f4")], (2,))]],
)
def test_it_refuses_what_it_cannot_name(published: Published, tmp_path: Path, dtype: Any) -> None:
    from_numpy(tmp_path / "store", np.zeros((3, 2), dtype))
    before = {file.name: file.read_bytes() for file in (tmp_path / "store").iterdir()}
    with pytest.raises(PublishedError, match="TypeError|ValueError"):
        published.read_dense(tmp_path / "store")
    with pytest.raises(PublishedError, match="TypeError|ValueError"):
        published.append("dense", tmp_path / "store", np.zeros((3, 2), f"V{np.dtype(dtype).itemsize}"))
    assert {file.name: file.read_bytes() for file in (tmp_path / "store").iterdir()} == before


def test_of_structures_it_keeps_the_bytes_alone(published: Published, tmp_path: Path) -> None:
    rows = dense_rows("|u1", (48,), 20).view(STRUCTURED)[:, 0]
    published.write_dense(tmp_path / "store", rows, "zstd")
    with DenseDataset(tmp_path / "store") as ours:
        assert ours.dtype == np.dtype("V48")
        assert ours[:].view(STRUCTURED)["id"].tolist() == rows["id"].tolist()
