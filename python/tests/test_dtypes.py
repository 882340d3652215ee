from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from loaderx.dataset.dtypes import as_array, from_stored_name, storable

GOOD = [
    "<i4",
    ">i4",
    "|b1",
    "|u1",
    "<f2",
    "<f8",
    "<c8",
    ">c16",
    "<M8[s]",
    "<m8[ns]",
    "<M8[25ms]",
    "<M8",
    "|S5",
    "<U7",
    "|V3",
]


@pytest.mark.parametrize("name", GOOD)
def test_a_stored_name_brings_its_dtype_back(name: str) -> None:
    dtype = storable(np.dtype(name))
    assert dtype.str == name
    assert from_stored_name(name) == dtype


@pytest.mark.parametrize("dtype", [float, "int32", np.uint8, np.longdouble])
def test_whatever_numpy_takes_for_a_dtype(dtype: Any) -> None:
    assert storable(dtype) == np.dtype(dtype)


@pytest.mark.parametrize("dtype", [object, "O", np.dtype([("a", object)])])
def test_references(dtype: Any) -> None:
    with pytest.raises(TypeError, match="uint8 records.*fixed-width dtype such as S16 or U16"):
        storable(dtype)


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="NumPy 1 has no variable-width strings")
def test_variable_width_strings() -> None:
    with pytest.raises(TypeError, match="uint8 records.*fixed-width dtype such as S16 or U16"):
        storable(np.dtypes.StringDType())


@pytest.mark.parametrize("dtype", [str, bytes, "V"])
def test_no_width(dtype: Any) -> None:
    with pytest.raises(TypeError, match="has no width: name one"):
        storable(dtype)


@pytest.mark.parametrize("dtype", [[("a", "i4"), ("b", "f8")], ("i4", (2,)), "i4,f4"])
def test_structured(dtype: Any) -> None:
    with pytest.raises(TypeError, match="structured, which is not supported yet: .*MSDataset"):
        storable(np.dtype(dtype))


def test_dtypes_of_others() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    with pytest.raises(TypeError, match=r"bfloat16 is not NumPy's own.*view\(numpy.uint16\)"):
        storable(ml_dtypes.bfloat16)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "f4",
        "=f4",
        "<f3",
        "|i4",
        "|O",
        "|T16",
        "i4,f4",
        "<M8[xx]",
        "<i99999999999",
        "<f4\n",
        "(2,)<i4",
        "|V0",
        "|S0",
        "x" * 999,
    ],
)
def test_a_stored_name_that_is_none(name: str) -> None:
    with pytest.raises(ValueError, match="expected the name of a fixed-width NumPy dtype"):
        from_stored_name(name)


def test_as_array_converts_byte_order_only() -> None:
    little = np.dtype("<i4")
    swapped = np.array([1, -2], ">i4")
    found = as_array(swapped, little, "x")
    assert found.dtype.str == "<i4"
    assert found.tolist() == [1, -2]
    native = np.array([1, -2], "<i4")
    assert as_array(native, little, "x") is native
    for other in (np.int64, np.uint32, np.float32, bool):
        with pytest.raises(ValueError, match="x: expected dtype '<i4', found"):
            as_array(np.array([1, 0], other), little, "x")
    with pytest.raises(TypeError, match="x: expected dtype '<i4': dtype object has no fixed width"):
        as_array(np.array([None]), little, "x")
    with pytest.raises(ValueError, match="x: not an array of one shape"):
        as_array([[1], [1, 2]], little, "x")
    with pytest.raises(TypeError, match="x: a masked array"):
        as_array(np.ma.masked_equal(np.array([1, 2], "<i4"), 2), little, "x")
