"""What appends and converters take: whatever speaks a protocol of arrays, in the memory that the CPU reads, in its own dtype."""

from __future__ import annotations

import array
import ctypes
import gc
import mmap
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from dtype_samples import random_array
from loaderx.dataset import DenseDataset, RaggedDataset
from loaderx.dataset import dlpack as reader
from loaderx.dataset.dlpack import NAMES, Tensor
from loaderx.dataset.foreign import array_of
from loaderx.dataset.named import WIDTHS
from loaderx.utils import from_iterator, from_numpy, train_dict
from support import Array, all_same, images, same, unchanged

ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)


class Interface:
    """NumPy's array interface and nothing else."""

    def __init__(self, rows: Array) -> None:
        self.rows = rows
        self.__array_interface__ = rows.__array_interface__


class Struct:
    def __init__(self, rows: Array) -> None:
        self.rows = rows
        self.__array_struct__ = rows.__array_struct__


class Method:
    def __init__(self, rows: Array) -> None:
        self.rows = rows

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        return self.rows


class DLPack:
    """DLPack and nothing else, of NumPy's own dtypes."""

    def __init__(self, rows: Array) -> None:
        self.rows = rows

    def __dlpack__(self, **options: Any) -> Any:
        return self.rows.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def buffer(rows: Array) -> Any:
    return memoryview(rows)  # type: ignore[arg-type]


def shared(rows: Array) -> Any:
    memory = mmap.mmap(-1, rows.nbytes)
    memory.write(rows.tobytes())
    return memoryview(memory).cast("f", rows.shape)


SPEAKERS: list[Callable[[Array], Any]] = [Interface, Struct, Method, DLPack, buffer, shared]


@pytest.mark.parametrize("speaker", SPEAKERS)
def test_each_protocol(tmp_path: Path, speaker: Callable[[Array], Any]) -> None:
    given = ROWS.copy()
    assert from_numpy(tmp_path / "dense", speaker(given)) == 4
    with DenseDataset(tmp_path / "dense") as dense:
        dense.append(speaker(given))
        dense.append([speaker(row) for row in given])
        assert same(dense[:], np.concatenate([ROWS, ROWS, ROWS]))
    assert from_iterator(tmp_path / "ragged", (speaker(rows) for rows in (given, given[:2])), np.float32) == 2
    with RaggedDataset(tmp_path / "ragged") as ragged:
        ragged.append([speaker(given)])
        assert all_same(ragged[:], [ROWS, ROWS[:2], ROWS])
    assert same(given, ROWS)
    assert same(array_of(speaker(given), "x"), ROWS)


@pytest.mark.parametrize("speaker", SPEAKERS)
def test_no_dtype_is_changed(tmp_path: Path, speaker: Callable[[Array], Any]) -> None:
    if speaker is shared:
        pytest.skip("floats only")
    dense, ragged = DenseDataset(tmp_path / "dense", "f8", (3,)), RaggedDataset(tmp_path / "ragged", "f8")
    with dense, ragged, unchanged(tmp_path):
        for wrong in (ROWS, ROWS.astype("i8")):
            with pytest.raises(ValueError, match="append: expected dtype '<f8', found"):
                dense.append(speaker(wrong))
            with pytest.raises(ValueError, match="append: record 1: expected dtype '<f8', found"):
                dense.append([speaker(ROWS[0].astype("f8")), speaker(wrong[0])])
            with pytest.raises(ValueError, match="append: record 0: expected dtype '<f8', found"):
                ragged.append([speaker(wrong)])
    from_numpy(tmp_path / "new", speaker(ROWS.astype("i2")))
    assert DenseDataset(tmp_path / "new").dtype == np.int16


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (array.array("d", [1.5, -2.0]), np.array([1.5, -2.0])),
        (bytearray(b"ab\0"), np.frombuffer(b"ab\0", np.uint8)),
        (b"ab\0", np.frombuffer(b"ab\0", np.uint8)),
        (memoryview(b"abcd")[::2], np.frombuffer(b"ac", np.uint8)),
        ((ctypes.c_int16 * 3)(1, 2, 3), np.array([1, 2, 3], np.int16)),
        (buffer(np.arange(6, dtype=">i4").reshape(2, 3)), np.arange(6, dtype=">i4").reshape(2, 3)),
        (buffer(np.zeros(2, [("a", "u1"), ("b", "<f4")])), np.zeros(2, [("a", "u1"), ("b", "<f4")])),
    ],
)
def test_buffers(tmp_path: Path, given: Any, expected: Array) -> None:
    from_numpy(tmp_path / "dense", given)
    assert same(DenseDataset(tmp_path / "dense")[:], expected)
    from_iterator(tmp_path / "ragged", [given], expected.dtype)
    with RaggedDataset(tmp_path / "ragged") as ragged:
        ragged.append([given])
        assert all_same(ragged[:], [expected, expected])


@pytest.mark.parametrize(
    "no_array", [[1, 2], (1, 2), 7, "text", {"a": 1}, None, iter([1]), np.ma.zeros(3), int, np.ndarray]
)
def test_what_is_no_array(tmp_path: Path, no_array: Any) -> None:
    with pytest.raises(TypeError, match="from_numpy: expected a NumPy array, found"):
        from_numpy(tmp_path / "ds", no_array)
    assert list(tmp_path.iterdir()) == []


class Cuda:
    """What CuPy, Numba and torch have of arrays on a GPU."""

    __cuda_array_interface__: dict[str, Any] = {"shape": (3,), "typestr": "<f4", "data": (4096, False), "version": 3}  # noqa: RUF012


class CudaDLPack:
    def __dlpack__(self, **options: Any) -> Any:
        raise AssertionError("nobody may ask for this")

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 1


class CudaTensor(Cuda, CudaDLPack):
    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        raise AssertionError("nobody may ask for a copy")


@pytest.mark.parametrize(
    ("device", "where"), [(Cuda, "a CUDA device"), (CudaDLPack, "device cuda:1"), (CudaTensor, "device cuda:1")]
)
def test_arrays_on_a_device(tmp_path: Path, device: Callable[[], Any], where: str) -> None:
    advice = r"copy it to the CPU first \(torch: tensor.cpu\(\), CuPy: array.get"
    text = f"this test_interchange.{device.__name__} lies on {where}.*: {advice}"
    with pytest.raises(TypeError, match=f"from_numpy: {text}"):
        from_numpy(tmp_path / "new", device())
    with pytest.raises(TypeError, match=f"from_iterator: record 0: {text}"):
        from_iterator(tmp_path / "new", [device()], np.float32)
    with pytest.raises(TypeError, match=f"train_dict: {text}"):
        train_dict([device()])
    with DenseDataset(tmp_path / "dense", "f4", (3,)) as dense, RaggedDataset(tmp_path / "ragged", "f4") as ragged:
        with pytest.raises(TypeError, match=f"append: {text}"):
            dense.append(device())
        with pytest.raises(TypeError, match=f"append: record 0: {text}"):
            dense.append([device(), device()])
        with pytest.raises(TypeError, match=f"append: record 1: {text}"):
            ragged.append([ROWS, device()])
    assert not (tmp_path / "new").exists()


class Refusing:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        raise self.error


@pytest.mark.parametrize("error", [TypeError("mine"), RuntimeError("mine"), ValueError("mine"), BufferError("mine")])
def test_a_protocol_that_fails(error: Exception) -> None:
    kind = ValueError if isinstance(error, ValueError) else TypeError
    with pytest.raises(kind, match="x: .*mine") as caught:
        array_of(Refusing(error), "x")
    cause: BaseException | None = caught.value
    while cause is not None and cause is not error:
        cause = cause.__cause__
    assert cause is error


def test_one_array_is_no_list_of_records(tmp_path: Path) -> None:
    with RaggedDataset(tmp_path / "ds", "f4") as ds:
        for one in (ROWS, DLPack(ROWS)):
            with pytest.raises(TypeError, match="expected a list of records, found one"):
                ds.append(one)


def test_dictionaries_are_trained_on_arrays_of_others(tmp_path: Path) -> None:
    pictures = images(3000)
    assert train_dict(DLPack(pictures), tier="fast") == train_dict(pictures, tier="fast")
    assert train_dict([Interface(one) for one in pictures], tier="fast") == train_dict(list(pictures), tier="fast")
    from_numpy(tmp_path / "ds", Interface(pictures), codec="zstd_dict")
    assert same(DenseDataset(tmp_path / "ds")[:], pictures)


new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)


class Named:
    """A producer of a dtype that NumPy's own reader of DLPack refuses, as torch is of bfloat16."""

    def __init__(self, rows: Array, number: int, **changes: int) -> None:
        self.rows = rows
        self.shape = (ctypes.c_int64 * rows.ndim)(*rows.shape)
        self.strides = (ctypes.c_int64 * rows.ndim)(*(step // rows.itemsize for step in rows.strides))
        self.tensor = Tensor(
            data=rows.ctypes.data,
            device_type=1,
            ndim=rows.ndim,
            code=number,
            bits=8 * rows.itemsize,
            lanes=1,
            shape=self.shape,
            strides=self.strides,
        )
        for key, value in changes.items():
            setattr(self.tensor, key, value)
        self.name = b"dltensor"

    def __dlpack__(self, **options: Any) -> Any:
        if options:
            raise TypeError("a producer of the old kind")
        return new_capsule(ctypes.addressof(self.tensor), self.name, None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.device_type, 0


@pytest.mark.parametrize("code", NAMES)
@pytest.mark.parametrize("form", ["C", "transposed", "strided", "reversed", "empty", "0-d"])
def test_dlpack_of_the_dtypes_of_ml_dtypes(tmp_path: Path, code: int, form: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, NAMES[code]))
    rows = random_array(dtype, (4, 6), 0)
    rows = {
        "C": rows,
        "transposed": rows.T,
        "strided": rows[1::2, ::3],
        "reversed": rows[::-1],
        "empty": rows[:0],
        "0-d": rows[1, 2, ...],
    }[form]
    found = array_of(Named(rows, code), "x")
    assert same(found, rows)
    assert not found.size or found.ctypes.data == rows.ctypes.data
    if rows.size and rows.ndim:
        from_numpy(tmp_path / "ds", Named(rows, code))
        assert same(DenseDataset(tmp_path / "ds", dtype=NAMES[code])[:], rows)


def test_dlpack_begins_at_an_offset() -> None:
    rows = np.arange(6).astype(ml_dtypes.bfloat16)
    named = Named(rows[:4], 4, byte_offset=4)
    assert same(array_of(named, "x"), rows[2:])
    named.tensor.strides = None
    assert same(array_of(named, "x"), rows[2:])


@pytest.mark.parametrize("changes", [{"bits": 4}, {"lanes": 2}, {"code": 99}, {"code": 17}])
def test_dlpack_of_a_dtype_that_nobody_has(changes: dict[str, int]) -> None:
    with pytest.raises(TypeError, match="x: this test_interchange.Named gives no array"):
        array_of(Named(np.zeros(4, np.uint8), 10, **changes), "x")


def test_dlpack_without_ml_dtypes(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.arange(6).astype(ml_dtypes.bfloat16)
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(ImportError, match="dtype 'bfloat16' needs the package ml_dtypes"):
        array_of(Named(rows, 4), "x")


def test_a_capsule_that_is_used_up() -> None:
    named = Named(np.arange(6).astype(ml_dtypes.bfloat16), 4)
    named.name = b"used_dltensor"
    assert reader.named_array(named.__dlpack__()) is None


def test_an_array_keeps_its_capsule() -> None:
    class Kept(Named):
        def __dlpack__(self, **options: Any) -> Any:
            self.capsule = super().__dlpack__(**options)
            return self.capsule

    named = Kept(np.arange(6).astype(ml_dtypes.bfloat16), 4)
    found = array_of(named, "x")
    with_array = sys.getrefcount(named.capsule)
    del found
    gc.collect()
    without = sys.getrefcount(named.capsule)  # pytest holds what stands in an assertion
    assert without == with_array - 1


def test_the_codes_of_dlpack_are_names() -> None:
    assert set(NAMES.values()) <= set(WIDTHS)
