from __future__ import annotations

import pickle
from pathlib import Path

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from loaderx.dataset import RaggedDataset
from loaderx.zrecord import CorruptRecordError, CorruptStoreError
from stores_of_1x import as_written_by_1x
from support import CODECS, READ_OPTIONS, Array, all_same, contents, same, swap_last


@pytest.mark.parametrize("codec", CODECS)
def test_write_close_open_read(tmp_path: Path, codec: str, dictionary: bytes, records: list[Array]) -> None:
    with RaggedDataset(tmp_path / "ds", dtype=np.int32, codec=codec) as ds:
        if codec == "zstd_dict":
            ds.install_dict(dictionary)
        assert ds.append(records[:4]) == 0
        assert ds.append(records[4:]) == 4
    for options in READ_OPTIONS:
        with RaggedDataset(tmp_path / "ds", **options) as ds:
            assert (len(ds), ds.dtype.str, ds.codec) == (9, "<i4", codec)
            assert all_same(ds[:], records)
            assert all_same(ds[0, 2, -1], [records[i] for i in (0, 2, -1)])
            assert same(ds[4], records[4])


@settings(max_examples=40)
@given(st.lists(npst.array_shapes(min_dims=0, max_dims=7, min_side=0, max_side=3), min_size=1, max_size=8), st.data())
def test_each_record_keeps_its_shape(
    tmp_path_factory: pytest.TempPathFactory, shapes: list[tuple[int, ...]], data: st.DataObject
) -> None:
    dtype = data.draw(st.sampled_from(["|u1", "<i2", ">i4", "<f8", "|S3", "<M8[s]", "<c16"]))
    rng = np.random.default_rng(0)
    records = [rng.integers(0, 9, shape).astype(dtype) for shape in shapes]
    with RaggedDataset(tmp_path_factory.mktemp("ragged") / "ds", dtype=dtype, codec="raw") as ds:
        cut = data.draw(st.integers(0, len(records)))
        for part in (records[:cut], records[cut:]):
            if part:
                ds.append(part)
        order = data.draw(st.lists(st.integers(-len(records), len(records) - 1), max_size=20))
        assert all_same(ds[order], [records[i] for i in order])
        assert ds.lengths(order).tolist() == [records[i].nbytes for i in order]


def test_records_are_writable_and_apart(ragged: RaggedDataset, records: list[Array]) -> None:
    batch = ragged[0, 0, 1]
    batch[0][:] = 7
    batch[2][:] = 8
    assert same(batch[1], records[0])
    assert all(record.flags.writeable and record.flags.c_contiguous for record in batch)
    assert same(ragged[0], records[0])


def test_one_dimensional_records_need_no_shape_file(tmp_path: Path) -> None:
    with RaggedDataset(tmp_path / "ds", dtype=np.int64) as ds:
        ds.append([np.arange(3), np.arange(0), np.arange(1)])
        assert not list(ds.path.glob("*.shape"))
        ds.append([np.zeros((2, 2), np.int64)])
        assert list(ds.path.glob("*.shape"))
        assert [record.shape for record in ds] == [(3,), (0,), (1,), (2, 2)]


def test_bytes_are_uint8_records(tmp_path: Path) -> None:
    with RaggedDataset(tmp_path / "ds", dtype=np.uint8) as ds:
        ds.append([b"abc", bytearray(b"de"), memoryview(b""), np.frombuffer(b"f", np.uint8)])
        assert [record.tobytes() for record in ds] == [b"abc", b"de", b"", b"f"]
    with RaggedDataset(tmp_path / "other", dtype=np.int32) as ds:
        before = contents(ds.path)
        with pytest.raises(ValueError, match="record 1: bytes are records of dtype '|u1', and this store has '<i4'"):
            ds.append([np.zeros(1, np.int32), b"abcd"])
        assert contents(ds.path) == before


def test_every_memory_order(tmp_path: Path) -> None:
    base = np.arange(24, dtype=np.int32).reshape(4, 6)
    records = [
        base[::2],
        base[:, ::-1],
        base.T,
        np.asfortranarray(base),
        np.broadcast_to(base[0], (3, 6)),
        base.astype(">i4"),
    ]
    with RaggedDataset(tmp_path / "ds", dtype=np.int32) as ds:
        ds.append(records)
        assert all_same(ds[:], [np.ascontiguousarray(record, np.int32) for record in records])
    assert same(base, np.arange(24, dtype=np.int32).reshape(4, 6))


def test_any_iterable_of_records(tmp_path: Path) -> None:
    with RaggedDataset(tmp_path / "ds", dtype=np.int64) as ds:
        ds.append(np.arange(i) for i in range(3))
        ds.append(([1, 2], 7))
        assert [record.tolist() for record in ds] == [[], [0], [0, 1], [1, 2], 7]


def test_delete_keeps_shapes_aligned(ragged: RaggedDataset, records: list[Array]) -> None:
    ragged.delete([0, 4, 4, -1])
    kept = swap_last(records, [0, 4, 8])
    assert all_same(ragged[:], kept)
    ragged.compact()
    ragged.append(records)
    ragged.close()
    assert all_same(RaggedDataset(ragged.path)[:], kept + records)


def test_pickle_and_repr(ragged: RaggedDataset, records: list[Array]) -> None:
    assert all_same(pickle.loads(pickle.dumps(ragged))[:], records)
    assert repr(ragged) == f"RaggedDataset({str(ragged.path)!r}, len=9, dtype='<i4', codec='zstd')"


@pytest.fixture
def old_records() -> list[Array]:
    return [np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape) for shape in [(3,), (2, 2), (1, 2, 3), (5,)]]


def test_a_store_of_1x_reads_as_it_is(tmp_path: Path, old_records: list[Array]) -> None:
    as_written_by_1x(tmp_path / "old", old_records)
    before = contents(tmp_path / "old")
    with RaggedDataset(tmp_path / "old") as ds:
        assert ds.metadata == {"mine": 1}
        assert all_same(ds[:], old_records)
        assert same(ds[-2], old_records[-2])
        assert ds.refresh() == 4
        assert all_same(pickle.loads(pickle.dumps(ds))[3, 1], [old_records[3], old_records[1]])
    assert contents(tmp_path / "old") == before


def test_a_refused_append_adopts_nothing(tmp_path: Path, old_records: list[Array]) -> None:
    as_written_by_1x(tmp_path / "old", old_records)
    before = contents(tmp_path / "old")
    with RaggedDataset(tmp_path / "old") as ds:
        with pytest.raises(ValueError, match="record 0: expected dtype"):
            ds.append([np.zeros(3, np.float32)])
        with pytest.raises(IndexError):
            ds.delete([4])
        ds.delete([])
    assert contents(tmp_path / "old") == before


@pytest.mark.parametrize("one_dimensional", [False, True])
def test_the_first_change_adopts_a_store_of_1x(tmp_path: Path, old_records: list[Array], one_dimensional: bool) -> None:
    records = [record.reshape(-1) for record in old_records] if one_dimensional else old_records
    as_written_by_1x(tmp_path / "a", records)
    with RaggedDataset(tmp_path / "a") as ds:
        assert ds.append(old_records[1:3]) == 4
        assert all_same(ds[:], records + old_records[1:3])
    schema = msgpack.unpackb((tmp_path / "a" / "schema.msgpack").read_bytes())
    assert "shapes" not in schema
    assert schema["mine"] == 1
    assert all_same(RaggedDataset(tmp_path / "a")[:], records + old_records[1:3])

    as_written_by_1x(tmp_path / "b", records)
    with RaggedDataset(tmp_path / "b") as ds:
        ds.delete(1)
    assert all_same(RaggedDataset(tmp_path / "b")[:], swap_last(records, [1]))


def test_shapes_of_1x_that_do_not_fit(tmp_path: Path, old_records: list[Array]) -> None:
    as_written_by_1x(tmp_path / "short", old_records, [[3], [2, 2]])
    with pytest.raises(CorruptStoreError, match="expected a shape for each of 4 records, found 2"):
        RaggedDataset(tmp_path / "short")
    as_written_by_1x(tmp_path / "wrong", old_records, [[3], [2, 3], [1, 2, 3], [5]])
    with RaggedDataset(tmp_path / "wrong") as ds:
        assert same(ds[0], old_records[0])
        with pytest.raises(CorruptStoreError, match="record 1: its shape does not fit its 4 items"):
            ds[:]


def test_records_that_are_no_multiple_of_the_item(tmp_path: Path) -> None:
    with RaggedDataset(tmp_path / "ds", dtype=np.int32) as ds:
        ds.append([np.arange(2, dtype=np.int32)])
        ds._store.append(b"abcde", [0])
        with pytest.raises(
            CorruptStoreError, match="record 1: expected a multiple of the 4 bytes of '<i4', found 5 bytes"
        ):
            ds[0, 1]
        assert ds[0].tolist() == [0, 1]


def test_a_shape_table_that_does_not_fit(ragged: RaggedDataset) -> None:
    ragged.close()
    with (ragged.path / "0.shape").open("r+b") as file:
        file.seek(32 + 4)
        file.write((3).to_bytes(4, "little"))
    with pytest.raises(CorruptRecordError, match="record 1.*checksum"):
        RaggedDataset(ragged.path)[1]
    with pytest.raises(CorruptStoreError, match="record 1: its shape does not fit its 4 items"):
        RaggedDataset(ragged.path, verify="never")[1]


def test_shapes_that_a_plain_writer_left_behind(ragged: RaggedDataset) -> None:
    """What loaderx 1.x leaves of our store: it knows neither `.shape` files nor the header's checksum over its own bytes."""
    ragged.close()
    header = bytearray((ragged.path / "meta.zr").read_bytes())
    header[14] -= 1
    (ragged.path / "meta.zr").write_bytes(header)
    with pytest.raises(CorruptStoreError, match="in a store with shapes, which a plain writer can't keep"):
        RaggedDataset(ragged.path)


@pytest.mark.parametrize("codec", ["raw", "zstd"])
def test_a_packed_batch_is_the_list_in_one_array(tmp_path: Path, codec: str) -> None:
    rng = np.random.default_rng(4)
    records = [rng.integers(0, 99, rng.integers(0, 40)).astype(np.int32) for _ in range(100)]
    with RaggedDataset(tmp_path / "s", dtype="i4", codec=codec) as dataset:
        dataset.append(records)
        for index in ([3, 3, 99], np.array([7, -1, 0]), slice(10, 60, 7), [], 5, np.arange(100) % 3 == 0):
            values, offsets, shapes = dataset.packed(index)
            expected = dataset.__getitems__(index)
            assert shapes is None
            assert values.dtype == np.int32
            assert values.flags.writeable
            assert offsets.dtype == np.int64
            assert offsets.tolist() == np.cumsum([0, *map(len, expected)]).tolist()
            assert np.array_equal(values, np.concatenate([np.empty(0, np.int32), *expected]))


def test_a_packed_batch_of_records_with_shapes(tmp_path: Path) -> None:
    records = [np.arange(6.0).reshape(2, 3), np.arange(4.0), np.float64(7.0), np.empty((0, 3))]
    with RaggedDataset(tmp_path / "s", dtype="f8") as dataset:
        dataset.append(records)
        values, offsets, shapes = dataset.packed([2, 0, 3, 1])
        assert values.tolist() == [7.0, *range(6), *range(4)]
        assert offsets.tolist() == [0, 1, 7, 7, 11]
        assert shapes == [(), (2, 3), (0, 3), (4,)]
        with pytest.raises(IndexError, match="4"):
            dataset.packed(4)
