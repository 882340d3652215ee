"""Export to the form of loaderx 1.5; whether that release reads it is tested in `exchange`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from fixtures.stores import RECENT, check, names, unpacked
from loaderx import CorruptRecordError, DenseDataset, MSDataset, RaggedDataset, Zrecord, ZrecordError, export, verify
from loaderx.utils import from_iterator, from_numpy
from support import Array

ALL = [(version, name) for version in RECENT for name in names(version)]


@pytest.mark.parametrize(("version", "name"), ALL)
def test_stores_of_1_5_are_read_and_go_back(tmp_path: Path, version: str, name: str) -> None:
    store = unpacked(version, tmp_path / "theirs", name) / name
    check(store, name)
    export(store, tmp_path / "copy")
    check(tmp_path / "copy", name)


def test_only_what_that_release_knows(tmp_path: Path, records: list[Array]) -> None:
    from_iterator(tmp_path / "store", records, np.int32, schema={"mine": [1, 2]})
    export(tmp_path / "store", tmp_path / "copy")
    assert sorted(file.name for file in (tmp_path / "copy").iterdir()) == [
        "0.chunk",
        "0.loc",
        "meta.zr",
        "schema.msgpack",
    ]
    assert (tmp_path / "copy" / "meta.zr").read_bytes()[22:] == bytes(10)
    schema = msgpack.unpackb((tmp_path / "copy" / "schema.msgpack").read_bytes())
    assert schema["shapes"] == [list(record.shape) for record in records]
    assert schema["mine"] == [1, 2]
    with RaggedDataset(tmp_path / "copy") as dataset:
        for got, record in zip(dataset[:], records, strict=True):
            assert got.shape == record.shape
            assert np.array_equal(got, record)
    assert verify(tmp_path / "copy").ok


def test_another_codec(tmp_path: Path, rows: Array) -> None:
    from_numpy(tmp_path / "store", rows, codec="raw")
    export(tmp_path / "store", tmp_path / "copy", codec="zstd", level=7)
    with DenseDataset(tmp_path / "copy") as dataset:
        assert dataset.codec == "zstd"
        assert np.array_equal(dataset[:], rows)
    with pytest.raises(ValueError, match="needs a dictionary"):
        export(tmp_path / "store", tmp_path / "another", codec="zstd_dict")


def test_plain_bytes_and_empty_stores(tmp_path: Path) -> None:
    with Zrecord(tmp_path / "store") as store:
        store.append(b"abcdef", [0, 3, 3])
    assert export(tmp_path / "store", tmp_path / "copy") == 3
    with Zrecord(tmp_path / "copy") as copied:
        assert copied.lengths([0, 1, 2]).tolist() == [3, 0, 3]
    for kind, options in ((DenseDataset, {"item_shape": (2,)}), (RaggedDataset, {})):
        for codec in ("raw", "zstd_dict"):
            made: Any = kind
            made(tmp_path / f"{kind.kind}-{codec}", np.int8, codec=codec, **options).close()
            assert export(tmp_path / f"{kind.kind}-{codec}", tmp_path / f"copy-{kind.kind}-{codec}") == 0
            assert len(made(tmp_path / f"copy-{kind.kind}-{codec}")) == 0


def test_damage_is_noticed_and_nothing_is_left(tmp_path: Path, rows: Array) -> None:
    from_numpy(tmp_path / "store", rows, codec="raw")
    with (tmp_path / "store" / "0.chunk").open("r+b") as file:
        file.seek(100)
        file.write(b"damage")
    with pytest.raises(CorruptRecordError):
        export(tmp_path / "store", tmp_path / "copy")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]


def test_what_can_not_be_exported(tmp_path: Path, rows: Array) -> None:
    from_numpy(tmp_path / "store", rows)
    with pytest.raises(ValueError, match=r"format: expected '1\.5', found '2\.8'"):
        export(tmp_path / "store", tmp_path / "copy", format="2.8")
    with pytest.raises(FileNotFoundError):
        export(tmp_path / "nothing", tmp_path / "copy")
    with pytest.raises(FileExistsError):
        export(tmp_path / "store", tmp_path / "store")
    with pytest.raises(ValueError, match="outside of"):
        export(tmp_path / "store", tmp_path / "store" / "copy")
    with pytest.raises(ValueError, match="unknown codec"):
        export(tmp_path / "store", tmp_path / "copy", codec="flate")
    content = msgpack.unpackb((tmp_path / "store" / "schema.msgpack").read_bytes())
    (tmp_path / "store" / "schema.msgpack").write_bytes(msgpack.packb(content | {"item_shape": [2, 4]}))
    with pytest.raises(ZrecordError, match="record 0: its length is not the 32 bytes"):
        export(tmp_path / "store", tmp_path / "copy")


def test_shapes_that_do_not_fit(tmp_path: Path) -> None:
    from_iterator(tmp_path / "store", [np.zeros(3, np.int16), np.zeros((2, 2), np.int16)], np.int16)
    content = msgpack.unpackb((tmp_path / "store" / "schema.msgpack").read_bytes())
    (tmp_path / "store" / "schema.msgpack").write_bytes(msgpack.packb(content | {"dtype": "<i8"}))
    with pytest.raises(ZrecordError, match="record 0: its shape does not fit its 6 bytes"):
        export(tmp_path / "store", tmp_path / "copy")


def test_streams_of_one_directory(tmp_path: Path, rows: Array) -> None:
    from_numpy(tmp_path / "store" / "a", rows)
    from_iterator(tmp_path / "store" / "b", list(rows), rows.dtype, codec="raw")
    assert export(tmp_path / "store", tmp_path / "copy", codec="zstd") == len(rows)
    with MSDataset(tmp_path / "copy") as streams:
        assert streams.names == ["a", "b"]
        assert np.array_equal(streams["a"][:], rows)
        assert np.array_equal(np.stack(streams["b"][:]), rows)
        assert {stream.codec for stream in streams.streams.values()} == {"zstd"}
    with DenseDataset(tmp_path / "store" / "a") as alone:
        alone.append(rows[:1])
    with pytest.raises(ValueError, match="streams of one length"):
        export(tmp_path / "store", tmp_path / "another")


def test_a_writer_between_two_streams(tmp_path: Path, rows: Array) -> None:
    """What not all streams have yet is not exported."""
    from_numpy(tmp_path / "store" / "a", rows)
    from_iterator(tmp_path / "store" / "b", list(rows), rows.dtype)
    with RaggedDataset(tmp_path / "store" / "b") as writer:
        writer.append([rows[0]])
        assert export(tmp_path / "store", tmp_path / "copy") == len(rows)
    with MSDataset(tmp_path / "copy") as streams:
        assert len(streams) == len(streams["b"]) == len(rows)
