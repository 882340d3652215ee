"""Files of several arrays that NumPy wrote."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from converting import (
    FIXTURES,
    assert_holds,
    begins_everywhere,
    converted,
    cuts,
    damaged,
    flips,
    records_from,
    resumes_everywhere,
    says_where,
    selects,
    small_parts,
    source_of,
    stored,
    writes_nothing,
)
from dtype_samples import DTYPES, bits, random_array
from hypothesis import given, settings
from hypothesis import strategies as st
from loaderx.__main__ import main
from loaderx.converters import convert
from loaderx.converters.formats.npyfile import filled, header_of
from loaderx.dataset.named import WIDTHS
from numpy.lib.recfunctions import repack_fields
from support import Array, same

SAVES: dict[str, Callable[..., None]] = {"stored": np.savez, "deflated": np.savez_compressed}


def arrays(count: int, start: int = 0) -> dict[str, Array]:
    number: Any = np.arange(start, start + count)
    return {
        "image": number[:, None, None] * np.ones((2, 3), np.float32),
        "label": number.astype(">i2"),
        "deep/point": np.rec.fromarrays([number, number], dtype=[("x", "<i8"), ("y", "<f4")]),
    }


@pytest.mark.parametrize("save", SAVES)
def test_files(memory: Path, save: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (memory / "in").mkdir()
    SAVES[save](memory / "in/2.npz", **arrays(13))
    SAVES[save](memory / "in/10.npz", **arrays(20, 13))
    for size in (8 << 20, 200):
        small_parts(monkeypatch, size)
        streams = converted(memory / "in", memory / f"out{size}")
        assert sorted(streams) == ["deep.point", "image", "label"]
        for name, array in arrays(33).items():
            assert_holds(streams[name.replace("/", ".")], np.asarray(array), array.dtype)
    assert resumes_everywhere(memory / "in", memory) >= 8
    begins_everywhere(memory / "in")
    selects(memory / "in", memory)
    assert "from array 'label'" in writes_nothing(memory / "in", memory)


@settings(max_examples=20)
@given(
    dtype=DTYPES,
    shape=st.lists(st.integers(0, 4), max_size=3),
    seed=st.integers(0, 99),
    fortran=st.booleans(),
    save=st.sampled_from(sorted(SAVES)),
    start=st.integers(0, 5),
)
@pytest.mark.filterwarnings("ignore:Stored array in format:UserWarning")  # of names that are not Latin-1
def test_what_numpy_reads(
    dtype: Any,
    shape: list[int],
    seed: int,
    fortran: bool,
    save: str,
    start: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The same as NumPy itself has from the file, whatever the dtype and the order."""
    array = random_array(np.dtype(dtype), (5, *shape), seed)
    if fortran and array.dtype.names is None:
        array = np.asfortranarray(array)
    path = tmp_path_factory.mktemp("npz") / "in.npz"
    try:
        SAVES[save](path, x=array, allow_pickle=False)
        wanted = np.load(path)["x"]
    except (ValueError, TypeError):
        return  # NumPy itself can't
    if save == "deflated" and not array.flags.c_contiguous:
        with pytest.raises(ValueError, match="compressed, and in Fortran order"), source_of(path):
            pass
        return
    with source_of(path) as source:
        blocks = [part()["x"] for part in source.parts(start, ["x"])]
    assert source.streams[0].dtype == wanted.dtype
    assert b"".join(fields(np.asarray(block)) for block in blocks) == fields(wanted[start:])


def fields(array: Array) -> bytes:
    """The bytes of values, without those between the fields of structures, which NumPy itself doesn't keep."""
    return bits(repack_fields(array, recurse=True) if array.dtype.names else array)


def test_npy_of_every_order(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.asfortranarray(np.arange(210).reshape(7, 5, 6))
    np.save(memory / "in.npy", array)
    small_parts(monkeypatch, 500)
    assert_holds(converted(memory / "in.npy", memory / "out")[""], np.ascontiguousarray(array))
    begins_everywhere(memory / "in.npy")
    np.save(memory / "wide.npy", np.asfortranarray(np.zeros((3, 5000))))
    with pytest.raises(ValueError, match="in Fortran order, so that each record's 5000 items are scattered"):
        convert(memory / "wide.npy", memory / "wide")


def test_what_is_refused(memory: Path) -> None:
    np.savez(memory / "in.npz", x=np.arange(3), scalar=3, objects=np.array([{}, 1, 2], object))
    for name, why in (("scalar", "axis of records, found shape"), ("objects", "no fixed width")):
        with pytest.raises(ValueError, match=f"in.npz: array '{name}'.*{why}"):
            convert(memory / "in.npz", memory / "out", streams=[name])
    assert list(converted(memory / "in.npz", memory / "out", only=["x"])) == ["x"]
    np.savez(memory / "in.npz", x=np.arange(3), y=np.arange(4))
    with pytest.raises(TypeError, match=r"only: expected a list of paths, such as \['x'\], found 'x'"):
        convert(memory / "in.npz", memory / "out2", only="x")
    with pytest.raises(ValueError, match=r"expected arrays of one length, found \{'x': 3, 'y': 4\}; give only="):
        convert(memory / "in.npz", memory / "none")
    np.savez(memory / "in.npz")
    with pytest.raises(ValueError, match="no array with records is here"):
        convert(memory / "in.npz", memory / "none")


@pytest.mark.parametrize("save", SAVES)
def test_damage(memory: Path, save: str) -> None:
    path = memory / "in.npz"
    SAVES[save](path, **arrays(9))
    content = path.read_bytes()
    damages = [*cuts(content, 40), *flips(content, 300)]
    caught = sum(says_where(path, name) for name in damaged(path, damages))
    assert caught > 200


def test_more_records_than_are_there(memory: Path) -> None:
    inside = io.BytesIO()
    np.lib.format.write_array_header_2_0(inside, {"descr": "<f8", "fortran_order": False, "shape": (1 << 50,)})
    for kind in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(memory / "in.npz", "w", kind) as file:
            file.writestr("x.npy", inside.getvalue() + bytes(80))
        with pytest.raises(ValueError, match="cut"):
            convert(memory / "in.npz", memory / f"out{kind}")
    (memory / "in.npy").write_bytes(inside.getvalue())
    with pytest.raises(ValueError, match="cut"):
        convert(memory / "in.npy", memory / "out")


@pytest.mark.parametrize(
    "header",
    [
        b"\x93NUMPY\x01\x00\xff\xff{",
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff{",
        b"\x93NUMPY\x09\x00\x01\x00{",
        b"\x93NUMPY\x01\x00\x09\x00{'descr':",
        b"\x93NUMPY\x01\x00\x04\x00None",
        b"\x93NUMPY\x01\x00\x37\x00{'descr':'<f8','fortran_order':False,'shape':(-1,)}    ",
        b"\x93NUMPY\x01\x00\x37\x00{'descr':'|O','fortran_order':False,'shape':(3,)}      ",
        b"",
        b"\x93NUM",
    ],
)
def test_headers_that_lie(header: bytes) -> None:
    with pytest.raises(ValueError, match="somewhere: "):
        header_of(io.BytesIO(header), "somewhere")


@pytest.mark.parametrize("save", SAVES)
def test_files_are_open_only_while_they_are_read(memory: Path, save: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (memory / "in").mkdir()
    for at in range(30):
        SAVES[save](memory / f"in/{at}.npz", **arrays(7, 7 * at))
    small_parts(monkeypatch, 60)
    most, before = 0, open_files()

    def counted(*given: Any) -> None:
        nonlocal most
        most = max(most, open_files())
        filled(*given)

    monkeypatch.setattr("loaderx.converters.formats.npz.filled", counted)
    with source_of(memory / "in") as source:
        assert open_files() == before
        names = ["image", "label"]
        for name, records in records_from(source, 0, names).items():
            assert np.array_equal(records, arrays(210)[name])
        assert before < most <= before + 1
        next(source.parts(3, names))
        assert open_files() > before
    assert open_files() == before


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


NAMELESS = [name for name, width in WIDTHS.items() if width in (1, 2) and hasattr(ml_dtypes, name)]


@pytest.mark.parametrize("name", NAMELESS)
def test_voids_are_what_they_are_said_to_be(memory: Path, name: str) -> None:
    array = random_array(np.dtype(getattr(ml_dtypes, name)), (9, 3), 0)
    for order in (np.ascontiguousarray, np.asfortranarray):
        np.save(memory / "in.npy", order(array))
        assert_holds(converted(memory / "in.npy", memory / order.__name__, dtype=name)[""], array, array.dtype)
    assert f"dtype= says of what, such as '{'bfloat16' if array.itemsize == 2 else 'float8_e4m3fn'}'" in writes_nothing(
        memory / "in.npy", memory
    )
    assert "dtype=" not in writes_nothing(memory / "in.npy", memory, dtype=name)
    assert_holds(converted(memory / "in.npy", memory / "void")[""], array.view(f"V{array.itemsize}"))


@pytest.mark.parametrize("save", SAVES)
def test_voids_in_npz(memory: Path, save: str) -> None:
    path, count = memory / "in.npz", np.arange(5)
    half, small = count.astype(ml_dtypes.bfloat16), count.astype(ml_dtypes.float8_e4m3fn)
    SAVES[save](path, half=half, count=count)
    streams = converted(path, memory / "one", dtype="bfloat16")
    assert_holds(streams["half"], half, half.dtype)
    assert_holds(streams["count"], count)
    SAVES[save](path, half=half, small=small, count=count)
    streams = converted(path, memory / "both", dtype={"half": "bfloat16", "small": small.dtype})
    assert_holds(streams["half"], half, half.dtype)
    assert_holds(streams["small"], small, small.dtype)
    assert_holds(converted(path, memory / "void", dtype={"half": "bfloat16"})["small"], small.view("V1"))
    said = writes_nothing(path, memory)
    assert "from array 'half': void of 2 bytes; if ml_dtypes made them, dtype= says of what, such as 'bfloat16'" in said
    assert "from array 'count'" in said
    assert said.count("dtype=") == 2
    with pytest.raises(ValueError, match=r"in\.npz: array 'small': dtype: 'bfloat16' is of 2 bytes.*found '\|V1'"):
        convert(path, memory / "no", dtype="bfloat16")
    with pytest.raises(ValueError, match=r"array 'count': dtype: .*expected '\|V2', found '<i8'"):
        convert(path, memory / "no", dtype={"count": "bfloat16"})
    with pytest.raises(ValueError, match=r"dtype: expected some of the arrays .*found \['halb'\]"):
        convert(path, memory / "no", dtype={"halb": "bfloat16"})


def test_what_no_void_is(memory: Path) -> None:
    np.savez(memory / "in.npz", x=np.arange(3))
    with pytest.raises(ValueError, match=r"in\.npz: dtype: expected a void of the width of 'bfloat16', found none"):
        convert(memory / "in.npz", memory / "no", dtype="bfloat16")
    np.save(memory / "in.npy", np.arange(3, dtype="<u2"))
    with pytest.raises(ValueError, match=r"in\.npy: dtype: 'bfloat16' is of 2 bytes.*expected '\|V2', found '<u2'"):
        convert(memory / "in.npy", memory / "no", dtype="bfloat16")
    np.save(memory / "in.npy", np.zeros(3, ml_dtypes.bfloat16))
    with pytest.raises(ValueError, match=r"in\.npy: dtype: 'int4' is of 1 bytes.*found '\|V2'"):
        convert(memory / "in.npy", memory / "no", dtype="int4")
    with pytest.raises(TypeError, match="dtype: data type 'brainfloat' not understood"):
        convert(memory / "in.npy", memory / "no", dtype="brainfloat")
    assert not (memory / ".no.converting").exists()


def test_voids_in_a_shell(memory: Path) -> None:
    half = np.arange(4).astype(ml_dtypes.bfloat16)
    np.save(memory / "in.npy", half)
    np.savez(memory / "in.npz", half=half)
    main(["convert", str(memory / "in.npy"), str(memory / "a"), "--option", "dtype=bfloat16"])
    main(["convert", str(memory / "in.npz"), str(memory / "b"), "--option", "dtype={'half': 'bfloat16'}"])
    assert_holds(stored(memory / "a")[""], half, half.dtype)
    assert_holds(stored(memory / "b")["half"], half, half.dtype)


@pytest.mark.parametrize("save", SAVES)
def test_files_in_the_repository(memory: Path, save: str) -> None:
    number = np.arange(20)
    streams = converted(FIXTURES / "npz" / f"{save}.npz", memory / "out")
    assert_holds(streams["image"], number[:, None, None] * np.ones((2, 3), np.float32))
    assert_holds(streams["label"], number.astype(">i2"))
    assert same([one["y"] for one in streams["point"].records], number / 2)
