from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from loaderx.dataset.dtypes import as_array, described, storable
from loaderx.dataset.named import WIDTHS
from loaderx.dataset.spelling import MAX_DEPTH, NamelessError, from_spelling, spelled
from support import same

PLAIN = [
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
    ">U7",
    "|V3",
]
NAMES = [name for name in WIDTHS if hasattr(ml_dtypes, name)]

POINT = np.dtype([("x", "<f4"), ("y", ">f4")])
STRUCTURED: dict[str, tuple[Any, Any]] = {
    "mixed order": (POINT, {"names": ["x", "y"], "formats": ["<f4", ">f4"], "offsets": [0, 4], "itemsize": 8}),
    "sub-arrays": (
        [("a", "u1", (3,)), ("b", "<M8[ns]", (2, 1))],
        {"names": ["a", "b"], "formats": ["(3,)|u1", "(2,1)<M8[ns]"], "offsets": [0, 3], "itemsize": 19},
    ),
    "nested": (
        [("p", POINT), ("t", "S3")],
        {"names": ["p", "t"], "formats": [spelled(POINT), "|S3"], "offsets": [0, 8], "itemsize": 11},
    ),
    "a sub-array of structures": (
        [("p", POINT, (2,))],
        {"names": ["p"], "formats": [{"base": spelled(POINT), "shape": [2]}], "offsets": [0], "itemsize": 16},
    ),
    "gaps": (
        np.dtype([("a", "u1"), ("b", "<f8")], align=True),
        {"names": ["a", "b"], "formats": ["|u1", "<f8"], "offsets": [0, 8], "itemsize": 16},
    ),
    "out of order, overlapping": (
        {"names": ["a", "b", "c"], "formats": ["<i4", "<i2", "<i4"], "offsets": [4, 5, 0], "itemsize": 9},
        {"names": ["a", "b", "c"], "formats": ["<i4", "<i2", "<i4"], "offsets": [4, 5, 0], "itemsize": 9},
    ),
    "titles": (
        [(("of a", "a"), "<i4"), ("b", "<i4")],
        {"names": ["a", "b"], "formats": ["<i4", "<i4"], "offsets": [0, 4], "itemsize": 8, "titles": ["of a", None]},
    ),
    "one of ml_dtypes": (
        [("w", ml_dtypes.bfloat16), ("q", ml_dtypes.int4, (2,))],
        {"names": ["w", "q"], "formats": ["bfloat16", "(2,)int4"], "offsets": [0, 2], "itemsize": 4},
    ),
    "names of any kind": (
        [("", "u1"), ("naïve name", "u1")],
        {"names": ["f0", "naïve name"], "formats": ["|u1", "|u1"], "offsets": [0, 1], "itemsize": 2},
    ),
}


def same_dtype(a: Any, b: Any) -> bool:
    """Equal in all that this NumPy compares, and in what older ones leave out."""
    if a.names is not None and (a.names != b.names or dict(a.fields) != dict(b.fields) or a.itemsize != b.itemsize):
        return False
    return bool(a == b)


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_dtype_is_its_own_name(name: str) -> None:
    dtype = storable(np.dtype(name))
    assert spelled(dtype) == name
    assert from_spelling(name) == dtype


@pytest.mark.parametrize("name", NAMES)
def test_a_dtype_of_ml_dtypes_is_its_name(name: str) -> None:
    dtype = storable(getattr(ml_dtypes, name))
    assert dtype.itemsize == WIDTHS[name]
    assert spelled(dtype) == name
    assert from_spelling(name) == dtype == storable(name)
    assert from_spelling(name) != np.dtype((np.void, dtype.itemsize))
    assert from_spelling(name, opaque=True) == np.dtype((np.void, dtype.itemsize))


def test_every_dtype_of_ml_dtypes_has_a_name_here() -> None:
    scalars = [value for value in vars(ml_dtypes).values() if isinstance(value, type) and issubclass(value, np.generic)]
    assert {scalar.__name__ for scalar in scalars} <= set(WIDTHS)


@pytest.mark.parametrize("case", STRUCTURED)
def test_a_structured_dtype_is_a_map(case: str) -> None:
    given, spelling = STRUCTURED[case]
    dtype = storable(given)
    assert spelled(dtype) == spelling
    assert same_dtype(from_spelling(spelling), dtype)
    assert from_spelling(spelling, opaque=True).itemsize == dtype.itemsize


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
    with pytest.raises(TypeError, match="uint8 records.*fixed-width dtype such as S16 or U16"):
        as_array(np.array(["a"], np.dtypes.StringDType()), np.dtype("U1"), "x")


@pytest.mark.parametrize("dtype", [str, bytes, "V", []])
def test_no_width(dtype: Any) -> None:
    with pytest.raises(TypeError, match="has no width"):
        storable(np.dtype(dtype))


def nested(depth: int) -> Any:
    dtype: Any = np.dtype("u1")
    for _ in range(depth):
        dtype = np.dtype([("a", dtype)])
    return dtype


@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        (np.dtype(("i4", (2,))), r"sub-array, which is the dtype of a field only: its \(2,\) belong to the shape"),
        ({"names": ["a", "b"], "formats": ["S0", "u1"]}, "field 'a' .* has no width"),
        ([("a", "u1"), ("b", [])], "field 'b' .* has no width"),
        (np.dtype({"names": ["a"], "formats": ["u1"], "titles": [7]}), "a title that is no string"),
        (nested(MAX_DEPTH + 1), f"nested more than {MAX_DEPTH} times"),
        (np.dtype(ml_dtypes.bfloat16).newbyteorder(">"), "bfloat16 in the other byte order"),
        (np.dtype([("a", ml_dtypes.bfloat16)]).newbyteorder(">"), "bfloat16 in the other byte order"),
    ],
)
def test_dtypes_that_no_store_holds(dtype: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        storable(np.dtype(dtype))


def test_a_dtype_of_ml_dtypes_that_is_not_known_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(WIDTHS, "bfloat16")
    with pytest.raises(TypeError, match=r"bfloat16 is neither NumPy's nor.*view\(numpy.uint16\)"):
        storable(ml_dtypes.bfloat16)


def fields(**changes: Any) -> dict[str, Any]:
    return {"names": ["a", "b"], "formats": ["|u1", "<i4"], "offsets": [0, 1], "itemsize": 5} | changes


def deep(depth: int) -> dict[str, Any]:
    value: Any = "|u1"
    for _ in range(depth):
        value = {"names": ["a"], "formats": [value], "offsets": [0], "itemsize": 1}
    return dict(value)


def bases(depth: int) -> dict[str, Any]:
    value: Any = "|u1"
    for _ in range(depth):
        value = {"base": value, "shape": [1]}
    return dict(value)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "f4",
        "=f4",
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
        "float32",
        "x" * 999,
        None,
        7,
        [["a", "<i4"]],
        {},
        {"base": "<i4", "shape": [2]},
        {"base": deep(1), "shape": [2]},
        fields(names=["a", "a"]),
        fields(names=["a", 7]),
        fields(names=["a"]),
        fields(names="ab"),
        fields(formats=["|u1", "|O"]),
        fields(formats=["|u1", "i4"]),
        fields(formats=["|u1", "(2)<i2"]),
        fields(formats=["|u1", {"base": "<i2", "shape": 2}]),
        fields(formats=["|u1", {"base": deep(1), "shape": [2**31 - 1, 2**31 - 1]}]),
        fields(offsets=[0, -1]),
        fields(offsets=[0, 2]),
        fields(offsets=[0, 2**40]),
        fields(offsets=[0, True]),
        fields(itemsize=4),
        fields(itemsize=2**31),
        fields(itemsize="5"),
        fields(titles=["t"]),
        fields(titles=["t", "t"]),
        fields(titles=[None, ["x"]]),
        fields(aligned=True),
        deep(MAX_DEPTH + 1),
        deep(400),
        bases(400),
    ],
)
@pytest.mark.parametrize("opaque", [False, True])
def test_a_spelling_that_is_none(value: Any, opaque: bool) -> None:
    with pytest.raises(
        ValueError, match="expected the name of a fixed-width NumPy dtype, .* or a map of fields, found"
    ):
        from_spelling(value, opaque)


@pytest.mark.parametrize(
    "value",
    [
        fields(formats=["|u1", "(02,)<i2"], itemsize=9),
        fields(formats=["|u1", {"base": "<i2", "shape": [2]}]),
        fields(titles=[None, None]),
    ],
)
def test_another_spelling_of_a_dtype(value: Any) -> None:
    with pytest.raises(ValueError, match="a map of fields, found"):
        from_spelling(value)


@pytest.mark.parametrize(("name", "width"), [("<V2", 2), ("<V1", 1), ("<f1", 1), ("<W4", 4), (">V2", 2)])
def test_a_dtype_whose_name_1x_did_not_keep(name: str, width: int) -> None:
    with pytest.raises(
        NamelessError, match=f"'{name}' is what loaderx 1.x writes for a dtype of ml_dtypes, and doesn't say which"
    ):
        from_spelling(name)
    assert from_spelling(name, opaque=True) == np.dtype((np.void, width))


def test_without_ml_dtypes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    text = "dtype 'bfloat16' needs the package ml_dtypes, which is not installed: pip install ml_dtypes, or read .* loaderx.zrecord.Zrecord"
    for call in (storable, from_spelling):
        with pytest.raises(ImportError, match=text):
            call("bfloat16")
    with pytest.raises(ImportError, match=text):
        from_spelling(STRUCTURED["one of ml_dtypes"][1])
    assert from_spelling(STRUCTURED["one of ml_dtypes"][1], opaque=True).itemsize == 4


def test_an_old_ml_dtypes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(ml_dtypes, "int4")
    with pytest.raises(ImportError, match="'int4' needs a newer version of the package ml_dtypes than"):
        storable("int4")


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


def test_the_other_byte_order_of_structures_and_of_ml_dtypes() -> None:
    dtype = np.dtype({"names": ["a", "b"], "formats": ["<i4", ">f8"], "offsets": [0, 8], "itemsize": 20})
    array = np.zeros(3, dtype)
    array["a"], array["b"] = [1, 2, 3], [0.5, -0.0, np.nan]
    swapped = array.astype(dtype.newbyteorder("S"))
    assert swapped.dtype != dtype
    assert same(as_array(swapped, dtype, "x"), array)
    weights = np.arange(4).astype(ml_dtypes.bfloat16)
    other = weights.astype(weights.dtype.newbyteorder(">"))
    assert other.tobytes() != weights.tobytes()
    assert same(as_array(other, weights.dtype, "x"), weights)


def test_voids_and_ml_dtypes_are_not_taken_for_one_another() -> None:
    weights = np.arange(4).astype(ml_dtypes.bfloat16)
    with pytest.raises(ValueError, match=r"x: expected dtype '\|V2', found 'bfloat16'$"):
        as_array(weights, np.dtype("V2"), "x")
    with pytest.raises(ValueError, match=r"x: expected dtype 'bfloat16', found '\|V2'"):
        as_array(weights.view("V2"), weights.dtype, "x")
    with pytest.raises(ValueError, match=r"x: expected dtype 'float8_e5m2', found 'float8_e4m3fn'"):
        as_array(weights.astype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2), "x")


def test_text_of_python_fits_what_is_wider() -> None:
    for values in (["a", "bcd"], np.str_("ab"), "ab", ["", ""], [np.str_("abc"), "d"]):
        assert same(as_array(values, np.dtype("<U3"), "x"), np.array(values, "<U3"))
    for dtype in ("<U3", ">U3"):
        assert as_array(["a"], np.dtype(dtype), "x").dtype == np.dtype(dtype)
    zeros = as_array([b"a\0", b"\0b\0\0"], np.dtype("S4"), "x")
    assert zeros.tobytes() == b"a\0\0\0\0b\0\0"
    with pytest.raises(ValueError, match="x: expected dtype '<U3', found '<U4'"):
        as_array(["abcd"], np.dtype("<U3"), "x")
    with pytest.raises(ValueError, match=r"x: expected dtype '\|S3', found '\|S4'"):
        as_array([b"abc\0"], np.dtype("S3"), "x")
    with pytest.raises(ValueError, match="x: expected dtype '<U3', found '<U2'"):
        as_array(np.array(["ab"]), np.dtype("<U3"), "x")
    with pytest.raises(ValueError, match=r"x: expected dtype '\|S3', found '<U2'"):
        as_array(["ab"], np.dtype("S3"), "x")


def test_a_list_of_arrays_is_no_way_to_another_dtype() -> None:
    with pytest.raises(ValueError, match="x: record 1: expected dtype '<f8', found '<f4'"):
        as_array([np.zeros(2), np.zeros(2, np.float32)], np.dtype("<f8"), "x")
    with pytest.raises(TypeError, match="x: record 1: a masked array"):
        as_array([np.zeros(2), np.ma.zeros(2)], np.dtype("<f8"), "x")
    with pytest.raises(ValueError, match="x: not an array of one shape"):
        as_array([np.zeros(2), np.zeros(3)], np.dtype("<f8"), "x")
    assert same(as_array([np.zeros(2), [1.0, 2.0]], np.dtype("<f8"), "x"), np.array([[0, 0], [1.0, 2.0]]))


def test_described() -> None:
    assert described(np.dtype("<f4")) == "'<f4'"
    assert described(np.dtype(ml_dtypes.bfloat16)) == "'bfloat16'"
    assert described(np.dtype([("a", "<i4")])) == "[('a', '<i4')]"
    assert len(described(np.dtype([(f"field{i}", "<i4") for i in range(99)]))) == 120
