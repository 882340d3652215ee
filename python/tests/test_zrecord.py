from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loaderx import zrecord
from loaderx.zrecord import (
    CODECS,
    MAX_RECORD_LEN,
    StoreLockedError,
    UnsupportedCodecError,
    Zrecord,
    ZrecordError,
    build_dict,
)
from support import Array, contents, images


@pytest.fixture
def store(tmp_path: Path) -> Zrecord:
    """Records b"ab", b"", b"cde"."""
    store = Zrecord(tmp_path / "store", codec="raw")
    store.append(b"abcde", [0, 2, 2])
    return store


def read(store: Zrecord, index: int) -> bytes:
    dst = np.zeros(int(store.lengths([index])[0]), np.uint8)
    store.gather([index], dst, [0])
    return dst.tobytes()


def test_names() -> None:
    assert CODECS == {"raw": 0, "zstd": 1, "zstd_dict": 2}
    assert MAX_RECORD_LEN == 2**31
    assert all(hasattr(zrecord, name) for name in zrecord.__all__)
    for name in (
        "CorruptStoreError",
        "CorruptRecordError",
        "StaleStoreError",
        "StoreLockedError",
        "UnsupportedCodecError",
    ):
        assert issubclass(getattr(zrecord, name), ZrecordError)
    assert issubclass(ZrecordError, RuntimeError)


@pytest.mark.parametrize("codec", ["raw", "zstd"])
def test_append_and_gather(tmp_path: Path, codec: str) -> None:
    with Zrecord(tmp_path / "store", codec=codec) as store:
        assert store.append(np.arange(6, dtype="<u2"), np.array([0, 4])) == 0
        assert store.append(b"xyz", np.zeros(1, np.uint64)) == 2
        assert len(store) == 3
        assert store.lengths(np.array([2, 0, 1])).tolist() == [3, 4, 8]
        dst = np.zeros(20, np.uint8)
        store.gather([2, 0], dst, [1, 10])
        assert dst[1:4].tobytes() == b"xyz"
        assert dst[10:14].view("<u2").tolist() == [0, 1]
        assert dst[4:10].tolist() == [0] * 6


def test_a_new_store_is_zstd(tmp_path: Path) -> None:
    with Zrecord(tmp_path / "store") as store:
        assert (store.codec, store.level) == ("zstd", 3)
    with Zrecord(tmp_path / "level", level=7) as store:
        assert store.level == 7
    assert Zrecord(tmp_path / "level").level == 7


def test_arguments_that_contradict_the_store(store: Zrecord, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="codec"):
        Zrecord(store.path, codec="zstd")
    Zrecord(tmp_path / "level", level=7).close()
    with pytest.raises(ValueError, match="level is fixed when a store is created: expected 8, found 7"):
        Zrecord(tmp_path / "level", level=8)


@pytest.mark.parametrize(("codec", "error"), [("lz4", ValueError), (2, TypeError), ("", ValueError)])
def test_unknown_codec(tmp_path: Path, codec: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=f"unknown codec {codec!r}: expected one of raw, zstd, zstd_dict"):
        Zrecord(tmp_path / "store", codec=codec)
    assert contents(tmp_path) == {}


def test_unknown_options(store: Zrecord) -> None:
    with pytest.raises(ValueError, match="verify.*sometimes"):
        Zrecord(store.path, verify="sometimes")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="io.*telepathy"):
        Zrecord(store.path, io="telepathy")  # type: ignore[arg-type]


@pytest.mark.parametrize("verify", ["always", "never"])
@pytest.mark.parametrize("io", ["auto", "mmap", "pread"])
def test_options(store: Zrecord, verify: Any, io: Any) -> None:
    store.close()
    with Zrecord(store.path, verify=verify, io=io, read_only=True) as reader:
        assert [read(reader, i) for i in range(3)] == [b"ab", b"", b"cde"]


def test_appends_that_are_refused(store: Zrecord) -> None:
    before = contents(store.path)
    for src, offsets, error in [
        (b"abc", [], ValueError),
        (b"abc", [1], ValueError),
        (b"abc", [0, 4], ValueError),
        (b"abc", [0, 2, 1], ValueError),
        (b"abc", [0.0], TypeError),
        (b"abc", [-1], ValueError),
        (np.zeros((4, 4), np.uint8)[:, ::2], [0], ValueError),
        (np.array(["a", None], object), [0], TypeError),
        ([1, 2], [0], TypeError),
    ]:
        with pytest.raises(error):
            store.append(src, offsets)  # type: ignore[arg-type]
    assert len(store) == 3
    assert contents(store.path) == before


def test_a_record_over_the_limit(store: Zrecord, tmp_path: Path) -> None:
    before = contents(store.path)
    with (tmp_path / "large").open("wb") as file:
        file.truncate(MAX_RECORD_LEN + 1)  # a hole: it takes neither disk nor memory
    large: Array = np.memmap(tmp_path / "large", np.uint8, "r")
    with pytest.raises(ValueError, match=str(MAX_RECORD_LEN)):
        store.append(large, [0])
    assert contents(store.path) == before


def test_gathers_that_are_refused(store: Zrecord) -> None:
    dst = np.zeros(8, np.uint8)
    frozen = np.zeros(8, np.uint8)
    frozen.flags.writeable = False
    for idxs, target, offsets, error in [
        ([3], dst, [0], IndexError),
        ([0, 2], dst, [0], ValueError),
        ([2], dst, [6], ValueError),
        ([0, 2], dst, [0, 1], ValueError),
        ([-1], dst, [0], ValueError),
        ([0.0], dst, [0], TypeError),
        ([0], frozen, [0], ValueError),
        ([0], np.zeros((8, 2), np.uint8)[:, 0], [0], ValueError),
        ([0], bytearray(8), [0], TypeError),
    ]:
        with pytest.raises(error):
            store.gather(idxs, target, offsets)  # type: ignore[arg-type]
    with pytest.raises(IndexError, match="7.*3"):
        store.lengths([0, 7])


U64 = np.zeros(1, np.uint64)


@pytest.mark.parametrize("name", ["forms", "shapes", "gather_packed", "gather_shaped", "gather_rows"])
def test_indices_that_are_refused(store: Zrecord, name: str) -> None:
    dst = (np.zeros((1, 2), np.uint8),) if name == "gather_rows" else ()
    getattr(store, name)(U64, *dst)
    for idxs, error in (
        (U64 + 3, IndexError),
        ([0], TypeError),
        (np.zeros(1, np.int64), TypeError),
        ([[0]], TypeError),
    ):
        with pytest.raises(error):
            getattr(store, name)(idxs, *dst)


def test_rows_that_are_refused(store: Zrecord) -> None:
    frozen = np.zeros((1, 2), np.uint8)
    frozen.flags.writeable = False
    for dst, error in (
        (np.zeros((1, 3), np.uint8), ValueError),  # record 0 has two bytes
        (np.zeros((2, 2), np.uint8), ValueError),
        (np.zeros((1, 4), np.uint8)[:, ::2], ValueError),
        (frozen, ValueError),
        (np.array([[None]]), TypeError),
    ):
        with pytest.raises(error):
            store.gather_rows(U64, dst)
    for rows, error in (
        (np.array(3), ValueError),
        (np.zeros((0, 3)), ValueError),
        (np.zeros((2, 4))[:, ::2], ValueError),
        (np.array([None]), TypeError),
        ([1, 2], TypeError),
    ):
        with pytest.raises(error):
            store.append_rows(rows)  # type: ignore[arg-type]
    assert len(store) == 3


def test_what_a_neighbour_keeps_from_happening(store: Zrecord) -> None:
    with Zrecord(store.path) as other:
        for change in (lambda: store.delete([0]), store.compact, lambda: other.append(b"x", [0])):
            with pytest.raises(StoreLockedError):
                change()
    for idxs, error in (([3], IndexError), ([-1], ValueError), ([0.5], TypeError)):
        with pytest.raises(error):
            store.delete(idxs)
    assert len(store) == 3


def test_delete_compact_stats(store: Zrecord) -> None:
    store.delete([0, 0])
    assert [read(store, i) for i in range(len(store))] == [b"cde", b""]
    assert store.stats() == {"records": 2, "live_bytes": 3, "chunk_bytes": 5, "reclaimable": 2}
    store.compact()
    assert store.stats() == {"records": 2, "live_bytes": 3, "chunk_bytes": 3, "reclaimable": 0}
    assert [read(store, i) for i in range(len(store))] == [b"cde", b""]
    with pytest.raises(IndexError):
        store.delete([2])
    store.delete([])
    assert len(store) == 2


def test_dictionary(tmp_path: Path) -> None:
    data = images(3000)
    dictionary = build_dict(data, np.full(len(data), 64), 8 << 10)
    assert isinstance(dictionary, bytes)
    assert 0 < len(dictionary) <= 8 << 10
    with Zrecord(tmp_path / "store", codec="zstd_dict") as store:
        assert not store.has_dict()
        with pytest.raises(UnsupportedCodecError, match="dictionary"):
            store.append(b"abc", [0])
        assert store.install_dict(dictionary) == len(dictionary)
        assert store.has_dict()
        store.append(data, np.arange(len(data)) * 64)
        assert store.stats()["live_bytes"] < data.nbytes
    with Zrecord(tmp_path / "store") as store:
        assert read(store, 17) == data[17].tobytes()


def test_build_dict_refuses() -> None:
    with pytest.raises(ValueError, match=r"\d"):
        build_dict(b"abc", [1, 1], 1024)
    with pytest.raises(ZrecordError):
        build_dict(b"abc", [3], 1024)
    with pytest.raises(TypeError, match="samples: expected a NumPy array or bytes, found str"):
        build_dict("abc", [3], 1024)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [4096, "text", None, [1, 2]])
def test_a_dictionary_is_bytes(tmp_path: Path, given: Any) -> None:
    with (
        Zrecord(tmp_path / "s", codec="zstd_dict") as store,
        pytest.raises(TypeError, match="dict_bytes: expected a NumPy array or bytes, found"),
    ):
        store.install_dict(given)


def test_a_dictionary_for_another_codec(store: Zrecord, dictionary: bytes) -> None:
    before = contents(store.path)
    with pytest.raises(ValueError, match="dictionary"):
        store.install_dict(dictionary)
    assert contents(store.path) == before


def test_others_see_an_append_after_refresh(store: Zrecord) -> None:
    reader = Zrecord(store.path, read_only=True)
    assert store.append(b"new", [0]) == 3
    assert (len(store), len(reader)) == (4, 3)
    assert reader.refresh() == len(reader) == 4
    assert read(reader, 3) == b"new"


def test_read_only(store: Zrecord, tmp_path: Path) -> None:
    store.close()
    before = contents(tmp_path)
    with Zrecord(store.path, read_only=True) as reader:
        for change in (lambda: reader.append(b"x", [0]), lambda: reader.delete([0]), reader.compact):
            with pytest.raises(PermissionError, match="read-only"):
                change()
        assert read(reader, 2) == b"cde"
    with pytest.raises(FileNotFoundError, match=str(tmp_path / "missing")):
        Zrecord(tmp_path / "missing", read_only=True)
    assert contents(tmp_path) == before


def test_after_close(store: Zrecord) -> None:
    store.close()
    store.close()
    assert store.closed
    assert "closed" in repr(store)
    with pytest.raises(ValueError, match="closed"):
        store.append(b"x", [0])
    with pytest.raises(ValueError, match="closed"):
        store.lengths([0])


def test_repr(store: Zrecord) -> None:
    assert repr(store) == f"Zrecord({str(store.path)!r}, len=3, codec='raw')"


def test_a_reader_pickles_and_a_writer_does_not(store: Zrecord, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TypeError, match="cannot pickle this Zrecord: it has written to .*Close it and open"):
        pickle.dumps(store)
    store.close()
    monkeypatch.chdir(store.path.parent)
    reader = Zrecord("store", io="pread", read_only=True)
    pickled = pickle.dumps(reader)
    assert len(pickled) < 4096
    monkeypatch.chdir("/")
    copy = pickle.loads(pickled)
    assert read(copy, 2) == b"cde"
    assert copy._options == {"verify": "always", "io": "pread", "read_only": True}
    for file in store.path.iterdir():
        file.unlink()
    with pytest.raises(FileNotFoundError, match="the pickled store is gone"):
        pickle.loads(pickled)
    assert contents(store.path) == {}
