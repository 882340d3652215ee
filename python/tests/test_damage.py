"""Files that are damaged, cut, missing or not ours are refused by name, and left as they are."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from loaderx.dataset import DenseDataset
from loaderx.utils import from_numpy
from loaderx.zrecord import CorruptRecordError, CorruptStoreError, UnsupportedCodecError, ZrecordError
from support import images, unchanged


def test_another_version(dense: DenseDataset) -> None:
    dense.close()
    with (dense.path / "meta.zr").open("r+b") as file:
        file.seek(4)
        file.write(b"\x04")
    with unchanged(dense.path), pytest.raises(ZrecordError, match="version.*4"):
        DenseDataset(dense.path)


def test_no_store_at_all(dense: DenseDataset) -> None:
    dense.close()
    (dense.path / "meta.zr").write_bytes(b"nothing of ours" * 3)
    with unchanged(dense.path), pytest.raises(ZrecordError, match=str(dense.path)):
        DenseDataset(dense.path)


def damaged(dense: DenseDataset, name: str, keep: int | None) -> None:
    """Remove a file of a closed store, or cut it to so many bytes."""
    dense.close()
    if keep is None:
        (dense.path / name).unlink()
    else:
        with (dense.path / name).open("r+b") as file:
            file.truncate(keep)


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(
    ("name", "keep"),
    [
        ("0.loc", None),
        ("0.loc", 30),
        ("0.chunk", None),
        ("0.chunk", 40),
        ("0.sum", None),
        ("0.sum", 7),
        ("meta.zr", 20),
        ("schema.msgpack", None),
        ("schema.msgpack", 9),
    ],
)
@pytest.mark.parametrize("io", ["mmap", "pread"])
def test_a_file_that_is_missing_or_cut(
    dense: DenseDataset, name: str, keep: int | None, read_only: bool, io: Any
) -> None:
    damaged(dense, name, keep)
    with unchanged(dense.path):
        with pytest.raises(
            (CorruptStoreError, CorruptRecordError), match=name.replace(".", r"\.") + "|record"
        ) as caught:
            ds = DenseDataset(dense.path, read_only=read_only, io=io)
            ds[:]
        assert str(dense.path) in str(caught.value)


def test_a_missing_header(dense: DenseDataset) -> None:
    damaged(dense, "meta.zr", None)
    with unchanged(dense.path):
        with pytest.raises(FileNotFoundError, match=r"no meta\.zr"):
            DenseDataset(dense.path)
        with pytest.raises(ZrecordError, match=str(dense.path)):
            DenseDataset(dense.path, dtype="<f4", item_shape=(2, 3))


@pytest.mark.parametrize("keep", [None, 0, 100])
def test_a_dictionary_that_is_missing_or_cut(tmp_path: Path, dictionary: bytes, keep: int | None) -> None:
    from_numpy(tmp_path / "ds", images(50), codec="zstd_dict", dict_bytes=dictionary)
    damaged(DenseDataset(tmp_path / "ds"), "dict.zr", keep)
    error = UnsupportedCodecError if keep is None else ZrecordError
    with unchanged(tmp_path / "ds"):
        with pytest.raises(error, match="dict"):
            DenseDataset(tmp_path / "ds")[0]
        with pytest.raises(error, match="dict"):
            DenseDataset(tmp_path / "ds").append(images(1))


def test_a_changed_byte_of_a_record(dense: DenseDataset) -> None:
    dense.close()
    with (dense.path / "0.chunk").open("r+b") as file:
        file.seek(25)
        byte = file.read(1)[0]
        file.seek(25)
        file.write(bytes([byte ^ 1]))
    with DenseDataset(dense.path) as ds, pytest.raises(CorruptRecordError, match=r"record [01].*"):
        ds[:]


def test_a_codec_that_the_schema_contradicts(tmp_path: Path) -> None:
    DenseDataset(tmp_path / "ds", dtype="<f4", item_shape=(), codec="raw").close()
    file = tmp_path / "ds" / "schema.msgpack"
    content = file.read_bytes()
    assert content.count(b"\xa3raw") == 1
    file.write_bytes(content.replace(b"\xa3raw", b"\xa4zstd"))
    with pytest.raises(
        CorruptStoreError, match="expected the codec of the header, 'raw', in schema.msgpack, found 'zstd'"
    ):
        DenseDataset(tmp_path / "ds")


def test_records_of_another_size_than_the_schema_says(dense: DenseDataset) -> None:
    dense._store.append(b"short", [0])
    with pytest.raises((ValueError, ZrecordError), match=r"20|5"):
        dense[20]
    assert dense[0].shape == (2, 3)


def test_header_lengths_that_can_not_be(dense: DenseDataset) -> None:
    dense.close()
    header = bytearray((dense.path / "meta.zr").read_bytes())
    header[14:22] = struct.pack("<Q", 2**60)
    (dense.path / "meta.zr").write_bytes(header)
    with pytest.raises(CorruptStoreError):
        DenseDataset(dense.path)
