from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loaderx import verify
from loaderx.dataset import DenseDataset, RaggedDataset, schema
from loaderx.dataset.schema import Schema, decode, encode
from loaderx.dataset.spelling import spelled
from loaderx.utils import from_numpy
from loaderx.zrecord import CorruptStoreError, Zrecord, ZrecordError
from support import contents, same

FILE = Path("store/schema.msgpack")
DENSE: dict[str, Any] = {
    "format": "loaderx-zrecord",
    "version": 1,
    "kind": "dense",
    "dtype": "<f4",
    "codec": "zstd",
    "item_shape": [2, 3],
}


def packed(**changes: Any) -> bytes:
    values = DENSE | changes
    return bytes(msgpack.packb({key: value for key, value in values.items() if value is not ...}))


@pytest.mark.parametrize(
    "value",
    [
        Schema(
            "dense", np.dtype(">i2"), "raw", item_shape=(0, 3), metadata={"names": ["a", "b"], "nested": {"x": 1.5}}
        ),
        Schema("ragged", np.dtype("|S4"), "zstd_dict"),
        Schema("ragged", np.dtype(ml_dtypes.bfloat16), "raw"),
        Schema("dense", np.dtype([("a", "<f4", (2,)), ("b", [("c", ">i2")])], align=True), "raw", item_shape=()),
        Schema("ragged", np.dtype("<f8"), "zstd", shapes=((1,), (), (2, 3))),
    ],
)
def test_round_trip(value: Schema) -> None:
    assert decode(encode(value), FILE) == value


def test_the_published_layout() -> None:
    assert msgpack.unpackb(encode(decode(packed(mine=[1]), FILE))) == DENSE | {"mine": [1]}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"format": "other"}, "format = 'loaderx-zrecord'.*found format = 'other'"),
        ({"format": ...}, "format = 'loaderx-zrecord'.*found format = None"),
        ({"version": "1"}, "version as int.*found version = '1'"),
        ({"version": True}, "version as int"),
        ({"kind": "sparse"}, "'dense' or 'ragged'.*found kind = 'sparse'"),
        ({"kind": 3}, "kind as str"),
        ({"dtype": "|O"}, "dtype: expected the name"),
        ({"dtype": ["<f4"]}, "dtype as str or dict"),
        ({"dtype": {"names": ["a"]}}, "dtype: expected the name"),
        ({"dtype": "float32"}, "dtype: expected the name"),
        ({"dtype": ...}, "the key 'dtype'"),
        ({"codec": "lz4"}, "codec = one of raw, zstd, zstd_dict.*found codec = 'lz4'"),
        ({"codec": None}, "codec as str"),
        ({"item_shape": ...}, "the key 'item_shape'"),
        ({"item_shape": 3}, "item_shape as list"),
        ({"item_shape": [2.0]}, "item_shape: expected an integer"),
        ({"item_shape": [True]}, "item_shape: expected an integer"),
        ({"item_shape": [-1]}, "item_shape: expected at least 0"),
        ({"item_shape": [2**40]}, "a record has at most"),
        ({"item_shape": [0, 2**63, 2**63]}, "a record has at most"),
        ({"item_shape": [1] * 32}, "at most 31 dimensions"),
        ({"kind": "ragged", "shapes": {}}, "shapes as list"),
        ({"kind": "ragged", "shapes": [[1], 2]}, r"shapes\[1\] as a list of dimensions, found 2"),
        ({"kind": "ragged", "shapes": [[-1]]}, r"shapes\[0\]"),
    ],
)
def test_a_schema_that_is_none(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(CorruptStoreError, match=f"store/schema.msgpack.*{expected}"):
        decode(packed(**changes), FILE)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xc1",
        b"not msgpack",
        packed()[:-1],
        packed() + b"\0",
        b"\x93\1\2\3",
        b"\x81\1\2",
        b"\x91" * 5000,
        b"\xdf\xff\xff\xff\xff",
    ],
)
def test_bytes_that_are_no_map(content: bytes) -> None:
    with pytest.raises(CorruptStoreError, match="store/schema.msgpack: expected"):
        decode(content, FILE)


STRUCTURED = packed(dtype=spelled(np.dtype([("a", "<f4", (2,)), ("b", [("c", ml_dtypes.int4)], (3,)), ("d", "S3")])))


@given(st.sampled_from([packed(), STRUCTURED]), st.data(), st.integers(0, 255))
def test_a_changed_byte_is_no_crash(content: bytes, data: st.DataObject, byte: int) -> None:
    at = data.draw(st.integers(0, len(content) - 1))
    changed = content[:at] + bytes([byte]) + content[at + 1 :]
    for opaque in (False, True):
        with contextlib.suppress(ZrecordError):
            decode(changed, FILE, opaque)


def test_a_dtype_whose_name_1x_did_not_keep(tmp_path: Path) -> None:
    rows = np.arange(6).astype(ml_dtypes.bfloat16).reshape(3, 2)
    from_numpy(tmp_path / "s", rows, codec="raw")
    file = tmp_path / "s" / schema.FILE
    file.write_bytes(packed(dtype="<V2", codec="raw", item_shape=[2]))
    with pytest.raises(ZrecordError, match=f"{file}: dtype: '<V2' is what loaderx 1.x writes") as caught:
        DenseDataset(tmp_path / "s")
    assert not isinstance(caught.value, CorruptStoreError)
    assert verify(tmp_path / "s").ok
    file.write_bytes(packed(dtype="bfloat16", codec="raw", item_shape=[2]))
    assert same(DenseDataset(tmp_path / "s")[:], rows)


def test_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    content = packed(dtype="bfloat16")
    with pytest.raises(ImportError, match=r"store/schema.msgpack: dtype 'bfloat16' needs the package ml_dtypes"):
        decode(content, FILE)
    assert decode(content, FILE, opaque=True).dtype == np.dtype("V2")


def test_another_version() -> None:
    with pytest.raises(ZrecordError, match="reads schema version 1, found version 2"):
        decode(packed(version=2), FILE)


def test_a_large_file_is_not_read(dense: DenseDataset) -> None:
    with (dense.path / schema.FILE).open("r+b") as file:
        file.truncate(schema.SIZE_LIMIT + 1)
    with pytest.raises(CorruptStoreError, match=f"expected at most {schema.SIZE_LIMIT} bytes"):
        DenseDataset(dense.path)


def test_a_store_without_a_schema(tmp_path: Path) -> None:
    Zrecord(tmp_path / "bytes").close()
    with pytest.raises(CorruptStoreError, match=r"schema.msgpack is missing.*loaderx\.zrecord\.Zrecord"):
        DenseDataset(tmp_path / "bytes")


def test_own_keys_are_kept(tmp_path: Path) -> None:
    mine = {"classes": ["cat", "dog"], "mean": 0.5}
    with DenseDataset(tmp_path / "a", dtype="<i4", item_shape=(), schema=mine) as ds:
        assert ds.metadata == mine
    assert DenseDataset(tmp_path / "a").metadata == mine
    assert DenseDataset(tmp_path / "a", schema={"mean": 0.5}).metadata == mine
    with pytest.raises(ValueError, match=r"schema: expected mean = 0.7, found 0.5"):
        DenseDataset(tmp_path / "a", schema={"mean": 0.7})
    with pytest.raises(ValueError, match="schema: expected std = 1, found 'no such key'"):
        DenseDataset(tmp_path / "a", schema={"std": 1})


def test_own_keys_that_are_refused(tmp_path: Path) -> None:
    for key in schema.CORE_KEYS:
        with pytest.raises(ValueError, match=f"the key '{key}' is set by loaderx"):
            RaggedDataset(tmp_path / "a", dtype="<i4", schema={key: 1})
    with pytest.raises(TypeError, match="expected string keys, found 1"):
        RaggedDataset(tmp_path / "a", dtype="<i4", schema={1: 1})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="expected a mapping of your own keys, found list"):
        RaggedDataset(tmp_path / "a", dtype="<i4", schema=[1])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="can't be stored as msgpack"):
        RaggedDataset(tmp_path / "a", dtype="<i4", schema={"x": object()})
    assert contents(tmp_path) == {}
