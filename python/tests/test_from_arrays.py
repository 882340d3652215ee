from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loaderx.dataset import DenseDataset, RaggedDataset
from loaderx.utils import arrays, from_iterator, from_numpy
from loaderx.zrecord import ZrecordError
from support import CODECS, Array, all_same, contents, images, run_python, same


@pytest.mark.parametrize("codec", CODECS)
def test_from_numpy(tmp_path: Path, codec: str, dictionary: bytes) -> None:
    array = images(100)
    options = {"dict_bytes": dictionary} if codec == "zstd_dict" else {}
    assert from_numpy(tmp_path / "ds", array, codec=codec, schema={"mine": 1}, **options) == 100
    with DenseDataset(tmp_path / "ds") as ds:
        assert (ds.codec, ds.item_shape, ds.metadata) == (codec, (8, 8), {"mine": 1})
        assert same(ds[:], array)


def test_from_numpy_trains_its_own_dictionary(tmp_path: Path) -> None:
    array = images(3000)
    assert from_numpy(tmp_path / "ds", array, codec="zstd_dict") == 3000
    with DenseDataset(tmp_path / "ds") as ds:
        assert ds.has_dict()
        assert same(ds[:], array)


def test_from_numpy_of_labels(tmp_path: Path) -> None:
    labels = np.arange(10, dtype=">i8")
    from_numpy(tmp_path / "ds", labels)
    assert DenseDataset(tmp_path / "ds").item_shape == ()
    assert same(DenseDataset(tmp_path / "ds")[:], labels)


def test_from_numpy_of_nothing(tmp_path: Path) -> None:
    assert from_numpy(tmp_path / "ds", np.zeros((0, 3), np.int16)) == 0
    assert DenseDataset(tmp_path / "ds")[:].shape == (0, 3)


def test_from_numpy_reads_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "CHUNK_BYTES", 100)
    sizes: list[int] = []
    append = DenseDataset.append

    def counted(self: DenseDataset, records: Any) -> int:
        sizes.append(len(records))
        return append(self, records)

    monkeypatch.setattr(DenseDataset, "append", counted)
    np.save(tmp_path / "array.npy", np.arange(50, dtype=np.int64).reshape(25, 2))
    mapped = np.load(tmp_path / "array.npy", mmap_mode="r")
    assert from_numpy(tmp_path / "ds", mapped) == 25
    assert sizes == [6, 6, 6, 6, 1]
    assert same(DenseDataset(tmp_path / "ds")[:], np.arange(50).reshape(25, 2))
    from_numpy(tmp_path / "large", np.zeros((3, 40), np.float64))
    assert sizes[5:] == [1, 1, 1]


@pytest.mark.parametrize("codec", ["raw", "zstd"])
@pytest.mark.parametrize(
    "view",
    [
        lambda array: array[::-1],
        lambda array: array[1::3, :, ::2],
        lambda array: array.transpose(2, 0, 1),
        lambda array: np.asfortranarray(array),
        lambda array: array.astype(">i4")[:, ::-1],
        lambda array: np.broadcast_to(array[:1], (20, *array.shape[1:])),
    ],
)
def test_from_numpy_of_any_memory_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str, view: Callable[[Array], Array]
) -> None:
    monkeypatch.setattr(arrays, "COPIED_BYTES", 200)
    array = view(np.arange(9 * 7 * 5, dtype=np.int32).reshape(9, 7, 5))
    assert from_numpy(tmp_path / "ds", array, codec=codec) == len(array)
    assert same(DenseDataset(tmp_path / "ds")[:], array)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")
@pytest.mark.parametrize("how", ["array", "array[::-1]", "array.T", "list(array)"])
def test_a_mapped_array_is_written_in_bounded_memory(tmp_path: Path, how: str) -> None:
    np.save(tmp_path / "array.npy", np.random.default_rng(0).integers(0, 99, (8192, 12_288), np.uint8))
    code = """
import sys, threading
from pathlib import Path
import numpy as np
from loaderx.utils import from_iterator, from_numpy

def anonymous():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) / 1024

folder, how, codec = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
array = np.load(folder / "array.npy", mmap_mode="r")
source = eval(how)
from_numpy(folder / f"warm-{codec}", np.ones((2, 400_000), np.uint8), codec=codec)
before = most = anonymous()
done = threading.Event()
def watch():
    global most
    while not done.wait(0.002):
        most = max(most, anonymous())
watcher = threading.Thread(target=watch)
watcher.start()
if isinstance(source, list):
    from_iterator(folder / codec, source, np.uint8, codec=codec)
else:
    from_numpy(folder / codec, source, codec=codec)
done.set()
watcher.join()
print(most - before)
"""
    for codec in ["raw", "zstd"]:
        taken = float(run_python(code, str(tmp_path), how, codec, timeout=300).stdout)
        # Of 96 MiB: what is copied at once, and what is encoded and not yet written.
        assert taken < 40, f"{codec}: {taken} MiB"


@pytest.mark.parametrize(
    ("array", "options", "error", "text"),
    [
        ([1, 2], {}, TypeError, "expected a NumPy array, found list"),
        (np.ma.zeros(3), {}, TypeError, "expected a NumPy array, found MaskedArray"),
        (np.array(3), {}, ValueError, r"found shape \(\)"),
        (np.array(["a", None], object), {}, TypeError, "uint8 records.*S16 or U16"),
        (np.zeros(3, [("a", "u1"), ("b", "O")]), {}, TypeError, "uint8 records.*S16 or U16"),
        (np.zeros(3), {"codec": "gzip"}, ValueError, "unknown codec 'gzip'"),
        (np.zeros(3), {"dict_bytes": b"x"}, ValueError, "only 'zstd_dict' has a dictionary"),
        (np.zeros((0, 3)), {"codec": "zstd_dict"}, ValueError, "at least one record"),
        (np.zeros(3), {"schema": {"kind": "x"}}, ValueError, "'kind' is set by loaderx"),
        (np.broadcast_to(np.uint8(0), (1, 2**31 + 1)), {}, ValueError, "a record has at most 2147483648 bytes"),
        (images(3), {"codec": "zstd_dict", "dict_bytes": b"no dictionary"}, (ValueError, ZrecordError), "dictionary"),
        (images(3), {"codec": "zstd_dict"}, ZrecordError, "dictionary"),
    ],
)
def test_from_numpy_refuses(tmp_path: Path, array: Any, options: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        from_numpy(tmp_path / "ds", array, **options)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_store_is_not_touched(dense: DenseDataset, rows: Array) -> None:
    before = contents(dense.path)
    with pytest.raises(FileExistsError, match=f"there is a store already.*{dense.path}"):
        from_numpy(dense.path, rows)
    with pytest.raises(FileExistsError, match="there is a store already"):
        from_iterator(dense.path, rows, np.float32)
    assert contents(dense.path) == before


def test_an_empty_directory_may_be_there(tmp_path: Path) -> None:
    (tmp_path / "ds").mkdir()
    assert from_numpy(tmp_path / "ds", np.zeros(3)) == 3


@pytest.mark.parametrize("codec", CODECS)
def test_from_iterator(tmp_path: Path, codec: str, dictionary: bytes, records: list[Array]) -> None:
    options = {"dict_bytes": dictionary} if codec == "zstd_dict" else {}
    assert from_iterator(tmp_path / "ds", iter(records), np.int32, codec=codec, schema={"mine": 1}, **options) == 9
    with RaggedDataset(tmp_path / "ds") as ds:
        assert (ds.codec, ds.dtype.str, ds.metadata) == (codec, "<i4", {"mine": 1})
        assert all_same(ds[:], records)


def test_from_iterator_of_nothing(tmp_path: Path) -> None:
    assert from_iterator(tmp_path / "ds", [], np.int32) == 0
    assert len(RaggedDataset(tmp_path / "ds")) == 0


def test_from_iterator_of_bytes(tmp_path: Path) -> None:
    assert from_iterator(tmp_path / "ds", (b"ab", bytearray(b"c"), memoryview(b"")), "u1") == 3
    assert [record.tobytes() for record in RaggedDataset(tmp_path / "ds")] == [b"ab", b"c", b""]


def reused_buffer(count: int) -> Iterator[Array]:
    buffer = np.zeros(4, np.int32)
    for i in range(count):
        buffer[:] = i
        yield buffer[: 1 + i % 4]


def test_an_iterator_may_reuse_its_buffer(tmp_path: Path) -> None:
    assert from_iterator(tmp_path / "ds", reused_buffer(10), np.int32) == 10
    assert [record.tolist() for record in RaggedDataset(tmp_path / "ds")] == [[i] * (1 + i % 4) for i in range(10)]


def test_from_iterator_holds_a_bounded_number_of_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "PACKED_BYTES", 5 * (arrays.RECORD_OVERHEAD + 8))
    path = tmp_path / "ds"
    seen: list[int] = []

    def source() -> Iterator[Array]:
        for i in range(23):
            if path.exists():
                seen.append(len(RaggedDataset(path, read_only=True)))
            yield np.array([i])

    assert from_iterator(path, source(), np.int64) == 23
    assert seen == [i // 5 * 5 for i in range(23)]
    assert [int(record[0]) for record in RaggedDataset(path)] == list(range(23))


@pytest.mark.parametrize("existed", [False, True])
@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt()])
def test_a_failing_source_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, existed: bool
) -> None:
    monkeypatch.setattr(arrays, "PACKED_BYTES", 1)
    if existed:
        (tmp_path / "ds").mkdir()

    def source() -> Iterator[Array]:
        yield np.zeros(3, np.int32)
        raise error

    with pytest.raises(type(error)) as caught:
        from_iterator(tmp_path / "ds", source(), np.int32)
    assert caught.value is error
    assert [path.name for path in tmp_path.iterdir()] == (["ds"] if existed else [])
    assert contents(tmp_path) == {}


def test_a_record_that_does_not_fit_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "PACKED_BYTES", 1)
    with pytest.raises(ValueError, match="from_iterator: record 1: expected dtype '<i4', found '<f8'"):
        from_iterator(tmp_path / "ds", [np.zeros(2, np.int32), np.zeros(2)], np.int32)
    assert contents(tmp_path) == {}


def test_an_iterator_trains_no_dictionary(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"needs dict_bytes: train a dictionary .*loaderx\.utils\.train_dict"):
        from_iterator(tmp_path / "ds", [], np.int32, codec="zstd_dict")
    assert contents(tmp_path) == {}


def test_of_two_converters_one_is_refused_and_removes_nothing(tmp_path: Path) -> None:
    def slow() -> Any:
        yield np.arange(3)
        with pytest.raises(FileExistsError):
            from_iterator(tmp_path / "s", [np.arange(9)], np.int64)
        with pytest.raises(FileExistsError):
            from_numpy(tmp_path / "s", np.arange(9))
        yield np.arange(4)

    assert from_iterator(tmp_path / "s", slow(), np.int64) == 2
    assert [len(record) for record in RaggedDataset(tmp_path / "s")] == [3, 4]


def test_a_failed_conversion_leaves_what_was_there_and_raises_its_own_error(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o750)
    (tmp_path / "link").symlink_to("real")
    for path in (tmp_path / "link", tmp_path / "real", tmp_path / "none"):
        with pytest.raises(ValueError, match="expected dtype"):
            from_iterator(path, [np.arange(3), np.arange(3.0)], np.int64)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]
    assert not list((tmp_path / "real").iterdir())
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o750


def test_a_handle_stays_with_its_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("A", "B"):
        (tmp_path / name).mkdir()
        from_numpy(tmp_path / name / "x", np.arange(5) + ord(name))
    monkeypatch.chdir(tmp_path / "A")
    with DenseDataset("x") as dataset:
        monkeypatch.chdir(tmp_path / "B")
        dataset.append(np.array([7]))
    assert DenseDataset(tmp_path / "A" / "x")[:].tolist() == [65, 66, 67, 68, 69, 7]
    assert DenseDataset(tmp_path / "B" / "x")[:].tolist() == [66, 67, 68, 69, 70]


def test_metadata_reads_back_or_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    from_numpy(tmp_path / "s", np.arange(3), schema={"classes": {0: "cat", 1.5: "dog"}})
    assert DenseDataset(tmp_path / "s").metadata == {"classes": {0: "cat", 1.5: "dog"}}
    with pytest.raises(TypeError, match="can't be stored as msgpack"):
        DenseDataset(tmp_path / "t", "f4", (2,), schema={"classes": {(1, 2): "cat"}})
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("name", ["0.chunk", "0.loc", "sync.zr", "schema.msgpack", "meta.zr"])
def test_a_pipe_in_place_of_a_file_is_refused(tmp_path: Path, name: str) -> None:
    from_numpy(tmp_path / "s", np.arange(3))
    (tmp_path / "s" / name).unlink()
    os.mkfifo(tmp_path / "s" / name)
    with pytest.raises((OSError, ZrecordError)):
        DenseDataset(tmp_path / "s")[0]
