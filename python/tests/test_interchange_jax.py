"""Arrays of JAX as records, and bfloat16 from a store to JAX."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from frameworks import framework
from loaderx.dataloader import DataLoader
from loaderx.dataset import DenseDataset, RaggedDataset
from loaderx.utils import from_iterator, from_numpy
from support import all_same, same

jax = framework("jax")

from loaderx.jax import to_device  # noqa: E402

# The first import of a framework reads a gigabyte.
pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize(
    "name", ["bool", "uint8", "int32", "float16", "float32", "complex64", "bfloat16", "float8_e4m3fn", "int4"]
)
def test_arrays_of_each_dtype(tmp_path: Path, name: str) -> None:
    given = (jax.numpy.arange(24).reshape(4, 6) % 5).astype(name)
    expected = np.asarray(given)
    from_numpy(tmp_path / "dense", given)
    with DenseDataset(tmp_path / "dense") as dense:
        dense.append(list(given))
        assert dense.dtype.name == name
        assert same(dense[:], expected[[0, 1, 2, 3] * 2])
    from_iterator(tmp_path / "ragged", (given[: i + 1] for i in range(4)), name)
    with RaggedDataset(tmp_path / "ragged") as ragged:
        ragged.append([given[0, 0]])
        assert all_same(ragged[:], [*(expected[: i + 1] for i in range(4)), expected[0, 0]])
    with DataLoader({"x": DenseDataset(tmp_path / "dense")}, batch_size=8, mode=0, transform=to_device()) as loader:
        assert same(next(loader)["x"], expected[[0, 1, 2, 3] * 2])


def test_arrays_that_are_none(tmp_path: Path) -> None:
    deleted = jax.numpy.zeros(2)
    deleted.delete()
    for wrong, text in ((jax.random.key(0), "PRNGKey"), (deleted, "deleted")):
        with pytest.raises(TypeError, match=f"from_numpy: .* gives no array: .*{text}"):
            from_numpy(tmp_path / "ds", wrong)
    with RaggedDataset(tmp_path / "ragged", "f4") as ragged:
        with pytest.raises(TypeError, match="expected a list of records, found one ArrayImpl"):
            ragged.append(jax.numpy.zeros((2, 3)))
        with pytest.raises(ValueError, match="append: record 0: expected dtype '<f4', found '<i4'"):
            ragged.append([jax.numpy.zeros(2, "int32")])


def test_dtypes_that_jax_lacks() -> None:
    for dtype in ("M8[s]", "S2", "V2", [("a", "f4")]):
        with pytest.raises(TypeError, match=r"batch\['x'\]: JAX has numbers only, and this is of dtype"):
            to_device()({"x": np.zeros(2, dtype)})
