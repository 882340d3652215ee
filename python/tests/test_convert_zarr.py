"""Zarr arrays and groups that zarr wrote, in both formats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from converting import (
    assert_holds,
    begins_everywhere,
    converted,
    cut_early,
    goes_on_with_itself_alone,
    needed,
    never_goes_on,
    read_all,
    records_from,
    resumes_everywhere,
    selects,
    small_parts,
    source_of,
    texts,
    writes_nothing,
)
from loaderx.converters import convert

zarr = needed("zarr")
pytestmark = [
    pytest.mark.parametrize("version", [2, 3]),
    pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification"),
    pytest.mark.filterwarnings("ignore:The data type"),
]
DTYPES = ["?", "i1", ">i2", "<u8", "f2", ">f4", "<c16", "M8[us]", "S5", "U3"]


def make(path: Any, version: int, count: int = 50) -> dict[str, Any]:
    number = np.arange(count)
    arrays: dict[str, Any] = {"deep/image": number[:, None] * np.ones((1, 3)), "label": number.astype(np.int16)}
    group = zarr.open_group(path, mode="w", zarr_format=version)
    for name, array in arrays.items():
        group.create_array(name, data=array, chunks=(7, *array.shape[1:]))
    text = group.create_array("text", shape=(count,), dtype=str, chunks=(9,))
    text[:] = np.array([f"été {i}" * (i % 3) for i in number], object)
    return arrays


def test_groups(memory: Path, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = make(str(memory / "in"), version)
    streams = converted(memory / "in", memory / "out")
    assert sorted(streams) == ["deep.image", "label", "text"]
    for name, array in arrays.items():
        assert_holds(streams[name.replace("/", ".")], array, array.dtype)
    assert texts(streams["text"]) == [f"été {i}" * (i % 3) for i in range(50)]
    small_parts(monkeypatch, 1000)
    assert resumes_everywhere(memory / "in", memory) > 5
    begins_everywhere(memory / "in")
    selects(memory / "in", memory)
    begins_everywhere(zarr.open_group(str(memory / "in"), mode="r"))
    assert "Zarr, " in writes_nothing(memory / "in", memory)
    assert list(converted(memory / "in", memory / "only", only=["deep/image"])) == ["deep.image"]


def test_one_array(memory: Path, version: int) -> None:
    for at, dtype in enumerate(DTYPES):
        bits = np.random.default_rng(at).integers(0, 2 if dtype == "?" else 100, (20, 3))
        array = bits.astype(dtype) if np.dtype(dtype).kind != "M" else bits.astype("i8").view(dtype)
        try:
            made = zarr.create_array(str(memory / f"in{at}"), data=array, chunks=(6, 2), zarr_format=version)
        except (ValueError, TypeError, NotImplementedError):
            continue
        # A file of format 3 has a byte order as a codec, not in its data type: it is read in that of the machine.
        wanted = zarr.open_array(str(memory / f"in{at}"), mode="r")
        assert np.array_equal(wanted[:], array)
        assert_holds(converted(memory / f"in{at}", memory / f"out{at}")[""], array.astype(wanted.dtype))
        assert_holds(converted(made, memory / f"object{at}")[""], array.astype(made.dtype))


def test_parts_end_with_chunks(memory: Path, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    array = zarr.create_array(str(memory / "in"), data=np.arange(100), chunks=(8,), zarr_format=version)
    small_parts(monkeypatch, 160)
    done: list[int] = []
    convert(array, memory / "out", progress=lambda count, total: done.append(count))
    assert done == [0, 16, 32, 48, 64, 80, 96, 100]


def test_what_is_refused(memory: Path, version: int) -> None:
    group = zarr.open_group(str(memory / "in"), mode="w", zarr_format=version)
    group.create_array("scalar", shape=(), dtype="i4")
    group.create_array("x", data=np.arange(3))
    with pytest.raises(ValueError, match="array 'scalar': expected an axis of records"):
        convert(memory / "in", memory / "out")
    assert list(read_all(memory / "in", only=["x"])) == ["x"]
    group.create_array("y", data=np.arange(4))
    with pytest.raises(ValueError, match="expected arrays of one length"):
        convert(memory / "in", memory / "out")
    if version == 2:
        pickled = memory / "in/p"
        pickled.mkdir()
        (pickled / ".zarray").write_text(
            '{"zarr_format": 2, "shape": [3], "chunks": [3], "dtype": "|O", "compressor": null, "fill_value": null,'
            ' "order": "C", "filters": [{"id": "pickle", "protocol": 5}]}'
        )
        with pytest.raises(ValueError, match="array 'p'|it can't be read"):
            convert(memory / "in", memory / "out", only=["p"])


def test_a_chunk_that_is_damaged(memory: Path, version: int) -> None:
    noise = np.random.default_rng(0).integers(0, 9, 4000)
    zarr.create_array(str(memory / "in"), data=noise, chunks=(1000,), zarr_format=version)
    chunk = memory / ("in/2" if version == 2 else "in/c/2")
    chunk.write_bytes(chunk.read_bytes()[:50])
    with pytest.raises(ValueError, match="in, records 0 to 3999: it can't be read"):
        convert(memory / "in", memory / "out")
    (memory / ("in/.zarray" if version == 2 else "in/zarr.json")).write_text("{")
    with pytest.raises(ValueError, match="in: it can't be read"):
        convert(memory / "in", memory / "out")


def test_words_of_the_writer_are_no_pickles(memory: Path, version: int) -> None:
    words: dict[str, Any] = {"dimension_names": ["pickles"]} if version == 3 else {"attributes": {"made of": "pickles"}}
    array = zarr.create_array(memory / "in.zarr", shape=(3,), dtype="i4", chunks=(2,), zarr_format=version, **words)
    array[:] = np.arange(3)
    assert_holds(converted(memory / "in.zarr", memory / "out")[""], np.arange(3, dtype=np.int32))


def test_an_open_group_or_array_that_is_another_one(
    memory: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_parts(monkeypatch, 100)

    def write(store: Any, which: int) -> None:
        group = zarr.open_group(store, mode="w", zarr_format=version)
        for name in ("a", "b"):
            group.create_array(name, data=np.arange(100) + which + (name == "b"), chunks=(5,))

    for which in range(2):
        write(str(memory / f"in{which}"), which)
        with zarr.storage.ZipStore(str(memory / f"in{which}.zip"), mode="w") as store:
            write(store, which)

    def opened(which: int) -> Any:
        return zarr.open_group(str(memory / f"in{which}"), mode="r")

    def zipped(which: int) -> Any:
        return zarr.open_group(zarr.storage.ZipStore(str(memory / f"in{which}.zip"), mode="r"), mode="r")

    goes_on_with_itself_alone(opened, memory)
    goes_on_with_itself_alone(lambda which: opened(which)["a"], memory)
    goes_on_with_itself_alone(lambda which: opened(0)["b" if which else "a"], memory)
    goes_on_with_itself_alone(zipped, memory)
    cut_early(opened(0), memory / "out")
    write(str(memory / "in0"), 1)
    with pytest.raises(ValueError, match="source: was"):
        convert(opened(0), memory / "out")


def test_groups_of_which_nothing_is_known(memory: Path, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as those in memory."""
    small_parts(monkeypatch, 100)

    def made(which: int) -> Any:
        array = zarr.create_array({}, shape=(100,), dtype="i8", chunks=(5,), zarr_format=version)
        array[:] = np.arange(100) + which
        return array

    never_goes_on(made, memory)


def test_values_that_are_neither_text_nor_bytes(memory: Path, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    make(str(memory / "in"), version, 10)

    def wrong(self: Any, at: Any) -> Any:
        return np.array(["text", b"bytes", 0, wrong_value], object)[at]

    for wrong_value, found in ((None, "NoneType"), (7, "int"), ("\ud800", "str")):
        with monkeypatch.context() as patch, source_of(memory / "in", only=["text"]) as source:
            patch.setattr(zarr.Array, "__getitem__", wrong)
            with pytest.raises(ValueError, match=rf"in: array 'text', record 3: expected text or bytes, found {found}"):
                records_from(source, 0, ["text"])
            wrong_value = "text"
            assert [len(one) for one in records_from(source, 0, ["text"])["text"]] == [4, 5, 0, 4]
