"""HDF5 files that h5py wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from converting import (
    assert_holds,
    begins_everywhere,
    converted,
    cuts,
    damaged,
    needed,
    resumes_everywhere,
    says_where,
    selects,
    small_parts,
    source_of,
    texts,
    writes_nothing,
)
from loaderx.converters import convert
from loaderx.converters.formats import hdf5

h5py = needed("h5py")
DTYPES = ["?", "i1", ">i2", "<u4", ">f4", "<f8", "<f2", "<c8", ">c16", "S5", "V3"]
POINT = np.dtype([("x", "<f4"), ("n", ">i2", (2,)), ("s", "S3")])


def values(dtype: Any, shape: tuple[int, ...], seed: int = 0) -> Any:
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return np.random.default_rng(seed).random(shape) < 0.5
    if dtype.kind == "S":
        return np.char.mod(b"%d", np.arange(np.prod(shape)).reshape(shape)).astype(dtype)
    return np.random.default_rng(seed).integers(0, 60, (*shape, dtype.itemsize), np.uint8).view(dtype)[..., 0]


@pytest.mark.parametrize("layout", [{}, {"chunks": True}, {"chunks": (4, 2), "compression": "gzip", "shuffle": True}])
def test_dtypes(memory: Path, layout: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = {dtype.strip("<>?") + str(at): values(dtype, (23, 3), at) for at, dtype in enumerate([*DTYPES, POINT.str])}
    wanted["point"] = values(POINT, (23, 3))
    wanted.pop("|V13" + str(len(DTYPES)), None)
    with h5py.File(memory / "in.h5", "w") as file:
        for name, array in wanted.items():
            file.create_dataset(name, data=array, **layout)
    for size in (8 << 20, 300):
        small_parts(monkeypatch, size)
        streams = converted(memory / "in.h5", memory / f"out{size}")
        assert sorted(streams) == sorted(wanted)
        for name, array in wanted.items():
            assert_holds(streams[name], array, array.dtype)


def make(path: Path, start: int, stop: int) -> None:
    number = np.arange(start, stop)
    with h5py.File(path, "w") as file:
        group = file.create_group("train")
        image = group.create_dataset("image", data=number[:, None, None] * np.ones((2, 3), np.uint8), chunks=(7, 2, 3))
        image.attrs["unit"] = "K"
        image.attrs["scale"] = np.float32(0.5)
        image.attrs["many"] = [1, 2, 3]
        names = h5py.enum_dtype({"dog": 1, "cat": 0}, basetype="u1")
        group.create_dataset("deep/label", data=(number % 2).astype("u1"), dtype=names)
        text = group.create_dataset("text", (len(number),), h5py.string_dtype())
        text[:] = [f"été {i}" * (i % 3) for i in number]
        tokens = group.create_dataset("tokens", (len(number),), h5py.vlen_dtype(np.dtype("<i4")))
        for at, i in enumerate(number):
            tokens[at] = np.arange(i % 5)
        file.create_dataset("other", data=np.zeros(3))


def test_groups_and_kinds(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (memory / "in").mkdir()
    make(memory / "in/2.h5", 0, 20)
    make(memory / "in/10.hdf5", 20, 50)
    streams = converted(memory / "in", memory / "out", group="train")
    assert sorted(streams) == ["deep.label", "image", "text", "tokens"]
    number = np.arange(50)
    assert_holds(streams["image"], number[:, None, None] * np.ones((2, 3), np.int64))
    assert streams["image"].metadata == {"unit": "K", "scale": 0.5}
    assert_holds(streams["deep.label"], (number % 2).astype(np.uint8))
    assert streams["deep.label"].metadata == {"enum": {"dog": 1, "cat": 0}, "classes": ["cat", "dog"]}
    assert texts(streams["text"]) == [f"été {i}" * (i % 3) for i in number]
    assert_holds(streams["tokens"], [np.arange(i % 5) for i in number], np.int32)
    small_parts(monkeypatch, 2000)
    assert resumes_everywhere(memory / "in", memory, group="train") >= 5
    begins_everywhere(memory / "in", group="train")
    selects(memory / "in", memory, group="/train")
    with pytest.raises(ValueError, match="expected arrays of one length"):
        convert(memory / "in", memory / "none")
    some = converted(memory / "in", memory / "some", only=["/train/image", "train/deep/label"])
    assert sorted(some) == ["train.deep.label", "train.image"]
    assert "from dataset 'image'" in writes_nothing(memory / "in", memory, group="train")


def test_parts_end_with_chunks(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with h5py.File(memory / "in.h5", "w") as file:
        file.create_dataset("x", data=np.arange(100), chunks=(8,))
    small_parts(monkeypatch, 160)
    done: list[int] = []
    convert(memory / "in.h5", memory / "out", progress=lambda count, total: done.append(count))
    assert done == [0, 16, 32, 48, 64, 80, 96, 100]
    with source_of(memory / "in.h5") as source:
        sizes = [len(part()["x"]) for part in source.parts(5, ["x"])]
    assert sizes == [11, 16, 16, 16, 16, 16, 4]


def test_what_is_refused(memory: Path) -> None:
    with h5py.File(memory / "other.h5", "w") as file:
        file["x"] = np.arange(5)
    with h5py.File(memory / "in.h5", "w") as file:
        file["good"] = np.arange(5)
        file["outside"] = h5py.ExternalLink("other.h5", "/x")
        file["scalar"] = 3
        file["refs"] = np.array([file.ref] * 5, h5py.ref_dtype)
        file["words"] = np.array([["a", "b"]] * 5, h5py.string_dtype())
        layout = h5py.VirtualLayout(shape=(5,), dtype="i8")
        layout[:] = h5py.VirtualSource(memory / "other.h5", "x", shape=(5,))
        file.create_virtual_dataset("virtual", layout)
        file["loop"] = file["/"]
        file["dangling"] = h5py.SoftLink("/nowhere")
    for name, why in (
        ("outside", "a link into other.h5, which is not followed"),
        ("scalar", "expected an axis of records"),
        ("refs", "no stream can hold its values"),
        ("words", "are no records"),
        ("virtual", "its values are in other files"),
    ):
        with pytest.raises(ValueError, match=f"in.h5: dataset '{name}': .*{why}"):
            convert(memory / "in.h5", memory / "out", streams=[name])
        with pytest.raises(ValueError, match=f"in.h5: dataset '{name}': .*{why}"):
            convert(memory / "in.h5", memory / "out", only=[name])
    with pytest.raises(ValueError, match=r"streams= of the others leaves it out \(there are \['good'\]\)"):
        convert(memory / "in.h5", memory / "out")
    assert_holds(converted(memory / "in.h5", memory / "out", streams=["good"])["good"], np.arange(5))
    with pytest.raises(ValueError, match="there is no group 'none'"):
        convert(memory / "in.h5", memory / "out2", group="none")
    with pytest.raises(ValueError, match="there is no group 'outside'"):
        convert(memory / "in.h5", memory / "out2", group="outside")
    with pytest.raises(ValueError, match="only: expected some of"):
        convert(memory / "in.h5", memory / "out2", only=["none"])


def test_files_that_are_unlike(memory: Path) -> None:
    for name, array in (("1.h5", np.zeros((2, 3))), ("2.h5", np.zeros((2, 4)))):
        with h5py.File(memory / name, "w") as file:
            file["x"] = array
    with pytest.raises(
        ValueError, match=r"2\.h5: array 'x': expected dense \(3,\) '<f8' as in .*1\.h5, found dense \(4,\)"
    ):
        convert([memory / "1.h5", memory / "2.h5"], memory / "out")


def test_a_file_that_is_cut(memory: Path) -> None:
    path = memory / "in.h5"
    make(path, 0, 20)
    for name in damaged(path, cuts(path.read_bytes(), 30)):
        assert says_where(path, name, group="train"), name


def test_a_chunk_that_is_damaged(memory: Path) -> None:
    path = memory / "in.h5"
    with h5py.File(path, "w") as file:
        noise = np.random.default_rng(0).integers(0, 256, 4000).astype(np.uint8)
        chunked = file.create_dataset("x", data=noise, chunks=(1000,), fletcher32=True)
        at = chunked.id.get_chunk_info(2).byte_offset
    content = bytearray(path.read_bytes())
    content[at + 5] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"in\.h5: dataset 'x', records 0 to 3999: it can't be read"):
        convert(path, memory / "out")


def test_a_link_through_a_link_into_another_file(memory: Path) -> None:
    with h5py.File(memory / "other.h5", "w") as file:
        file["x"] = np.arange(3) * 100
    with h5py.File(memory / "in.h5", "w") as file:
        file["a"] = np.arange(3)
        file["other"] = h5py.ExternalLink("other.h5", "/")
        file["soft"] = h5py.SoftLink("/other/x")
        file["same"] = h5py.SoftLink("/a")
    with pytest.raises(
        ValueError, match=r"in\.h5: dataset 'soft': a link that leads into .*other\.h5, which is not followed"
    ):
        convert(memory / "in.h5", memory / "out", streams=["a", "soft"])
    streams = converted(memory / "in.h5", memory / "out", only=["a", "same"])
    assert_holds(streams["same"], np.arange(3))


def test_an_attribute_that_is_no_text(memory: Path) -> None:
    with h5py.File(memory / "in.h5", "w") as file:
        attributes = file.create_dataset("a", data=np.arange(2)).attrs
        attributes.create("bad", b"\xff\xfe", dtype=h5py.string_dtype())
        attributes["good"] = "\u00e9"
    assert converted(memory / "in.h5", memory / "out")["a"].metadata == {"good": "\u00e9"}


def test_only_is_a_list(memory: Path) -> None:
    with h5py.File(memory / "in.h5", "w") as file:
        file["a"], file["b"], file["ab"] = np.arange(2), np.arange(2), np.arange(3)
    with pytest.raises(TypeError, match="only: expected a list of paths"):
        convert(memory / "in.h5", memory / "out", only="ab")


def test_text_that_is_not_utf_8(memory: Path) -> None:
    with h5py.File(memory / "in.h5", "w") as file:
        text = file.create_dataset("a", (300,), h5py.string_dtype("ascii"), chunks=(100,))
        text[:] = [b"fine"] * 300
        text[207] = "na\u00efve".encode("latin-1")
        file["b"] = np.arange(300)
    with pytest.raises(ValueError, match=r"in\.h5: dataset 'a', record 207: expected text in UTF-8, found other bytes"):
        convert(memory / "in.h5", memory / "out")
    assert_holds(converted(memory / "in.h5", memory / "b", streams=["b"])["b"], np.arange(300))


def test_files_are_open_only_while_they_are_read(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (memory / "in").mkdir()
    for at in range(30):
        with h5py.File(memory / f"in/{at}.h5", "w") as file:
            file["a/x"], file["a/y"] = np.arange(3) + 3 * at, np.arange(6).reshape(3, 2)
    most = 0
    read = hdf5.Dataset._read

    def counted(self: hdf5.Dataset, start: int, stop: int) -> Any:
        nonlocal most
        most = max(most, open_files())
        return read(self, start, stop)

    monkeypatch.setattr(hdf5.Dataset, "_read", counted)
    before = open_files()
    streams = converted(memory / "in", memory / "out", group="a", workers=3)
    assert_holds(streams["x"], np.arange(90))
    assert 0 < most - before < 12
    assert open_files() == before
    begins_everywhere(memory / "in", group="a", most=5)


def open_files() -> int:
    return int(h5py.h5f.get_obj_count(h5py.h5f.OBJ_ALL, h5py.h5f.OBJ_FILE))
