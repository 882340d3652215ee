"""verify and repair as users call them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from loaderx import MSDataset, Zrecord, export, repair, verify
from loaderx.dataset import DenseDataset, RaggedDataset
from loaderx.utils import from_iterator, from_numpy
from loaderx.zrecord import (
    CorruptRecordError,
    CorruptStoreError,
    StaleStoreError,
    StoreLockedError,
    ZrecordError,
)
from support import interrupted_soon, same

ROWS = np.arange(60 * 25, dtype=np.int32).reshape(60, 25)


def dense(home: Path, codec: str = "zstd") -> Path:
    from_numpy(home / "ds", ROWS, codec=codec)
    return home / "ds"


def flip(file: Path, at: int) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("codec", ["raw", "zstd"])
def test_a_sound_dataset(tmp_path: Path, codec: str) -> None:
    from_numpy(tmp_path / "dense", ROWS, codec=codec)
    from_iterator(
        tmp_path / "ragged", (row.reshape(5, 5)[: i % 4] for i, row in enumerate(ROWS)), np.int32, codec=codec
    )
    for name in ("dense", "ragged"):
        report = verify(tmp_path / name)
        assert report.ok
        assert (report.records, report.sound, report.torn, report.problems) == (60, 60, 0, ())
        assert report.damaged.dtype == np.uint64
        assert f"{name}: sound; 60 of 60 records right" in str(report)
        assert "nothing was to be done" in str(repair(tmp_path / name))


def test_damage_is_reported_and_cut_out_on_request_only(tmp_path: Path) -> None:
    path = dense(tmp_path, codec="raw")
    for record in (3, 40):
        flip(path / "0.chunk", record * 100 + 7)
    report = verify(path)
    assert not report.ok
    assert report.damaged.tolist() == [3, 40]
    assert [problem.record for problem in report.problems] == [3, 40]
    assert "2 problems; 58 of 60" in str(report)
    assert "checksum" in str(report)

    kept = repair(path)
    assert kept.dropped.size == 0
    assert "2 damaged records stay" in str(kept)
    with DenseDataset(path) as ds, pytest.raises(CorruptRecordError):
        ds[3]

    done = repair(path, drop_damaged=True)
    assert done.dropped.tolist() == [3, 40]
    assert "cut out 2 damaged records" in str(done)
    expected = ROWS.copy()
    expected[3], expected[40] = ROWS[58], ROWS[59]
    with DenseDataset(path) as ds:
        assert same(ds[:], expected[:58])
    assert verify(path).ok


def test_a_plain_store_gets_checksums(tmp_path: Path) -> None:
    path = dense(tmp_path)
    header = bytearray((path / "meta.zr").read_bytes())
    header[22:] = bytes(10)
    (path / "meta.zr").write_bytes(header)
    for name in ("0.sum", "sync.zr", "lock.zr"):
        (path / name).unlink()
    report = verify(path)
    assert report.ok
    assert not report.sums_known
    assert "repair makes them" in str(report)
    assert repair(path).sums_rebuilt
    assert verify(path).sums_known
    with DenseDataset(path) as ds:
        assert same(ds[:], ROWS)


def test_a_lost_header_comes_back(tmp_path: Path) -> None:
    path = dense(tmp_path)
    (path / "meta.zr").write_bytes(b"\0" * 32)
    assert not verify(path).ok
    assert "restored the header" in str(repair(path))
    with DenseDataset(path) as ds:
        assert same(ds[:], ROWS)


def test_listed_shapes_of_an_old_store_go_with_their_records(tmp_path: Path) -> None:
    """loaderx 1.x keeps the shapes of ragged records by index in the schema."""
    from_iterator(tmp_path / "ds", list(ROWS), np.int32, codec="raw")
    schema = tmp_path / "ds" / "schema.msgpack"
    content = msgpack.unpackb(schema.read_bytes())
    shapes = [(5, 5) if i % 2 else (25, 1) for i in range(60)]
    schema.write_bytes(msgpack.packb(content | {"shapes": shapes}))
    flip(tmp_path / "ds" / "0.chunk", 7)
    assert verify(tmp_path / "ds").damaged.tolist() == [0]
    repair(tmp_path / "ds", drop_damaged=True)
    with RaggedDataset(tmp_path / "ds") as ds:
        assert same(ds[0], ROWS[59].reshape(shapes[59]))
        assert same(ds[2], ROWS[2].reshape(shapes[2]))
    assert verify(tmp_path / "ds").ok


@pytest.mark.parametrize("item_shape", [[5, 5, 2], [24]])
def test_records_that_do_not_fit_their_schema(tmp_path: Path, item_shape: list[int]) -> None:
    path = dense(tmp_path)
    schema = path / "schema.msgpack"
    schema.write_bytes(msgpack.packb(msgpack.unpackb(schema.read_bytes()) | {"item_shape": item_shape}))
    report = verify(path)
    assert report.problem_count == 60
    assert report.damaged.size == 0
    schema.write_bytes(b"\xc1")
    report = verify(path)
    assert report.problem_count == 1
    assert "schema.msgpack" in str(report)


@pytest.mark.parametrize("shape", [(26,), (2**31 - 1,) * 2, (2**31 - 1,) * 3, (2**31 - 1,) * 40])
def test_a_listed_shape_of_more_items_than_can_be_is_a_misfit(tmp_path: Path, shape: tuple[int, ...]) -> None:
    from_iterator(tmp_path / "ds", list(ROWS), np.int32, codec="raw")
    schema = tmp_path / "ds" / "schema.msgpack"
    shapes = [shape if i == 7 else (25,) for i in range(60)]
    schema.write_bytes(msgpack.packb(msgpack.unpackb(schema.read_bytes()) | {"shapes": shapes}))
    report = verify(tmp_path / "ds")
    assert [problem.record for problem in report.problems] == [7]
    with pytest.raises(CorruptStoreError, match="record 7: its shape does not fit"):
        export(tmp_path / "ds", tmp_path / "out", format="1.5")


def test_plain_records_need_no_schema(tmp_path: Path) -> None:
    with Zrecord(tmp_path / "s", codec="raw") as store:
        store.append(b"abcdef", [0, 2, 2])
    assert verify(tmp_path / "s").sound == 3


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        verify(tmp_path / "nothing")
    with pytest.raises(ZrecordError, match=r"no meta\.zr"):
        repair(tmp_path)
    path = dense(tmp_path)
    with DenseDataset(path, read_only=True), pytest.raises(StoreLockedError, match="repair needs the store alone"):
        repair(path)


def test_progress_and_interruption(tmp_path: Path) -> None:
    path = dense(tmp_path)
    seen: list[tuple[int, int]] = []
    verify(path, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (60, 60)
    assert seen == sorted(seen)

    def stop(done: int, total: int) -> None:
        raise LookupError("enough")

    for work in (verify, repair):
        with pytest.raises(LookupError, match="enough"):
            work(path, progress=stop)
    assert verify(path).ok


@pytest.mark.usefixtures("sigint")
def test_ctrl_c_ends_a_long_check(tmp_path: Path) -> None:
    path = dense(tmp_path)
    with interrupted_soon():
        for _ in range(100_000):
            verify(path)


@pytest.mark.parametrize("codec", ["raw", "zstd"])
def test_once_checks_at_the_first_touch(tmp_path: Path, codec: str) -> None:
    path = dense(tmp_path, codec=codec)
    with DenseDataset(path, verify="once") as ds:
        assert same(ds[5], ROWS[5])
        flip(path / "0.sum", 5 * 4)
        flip(path / "0.sum", 6 * 4)
        assert same(ds[5], ROWS[5])
        with pytest.raises(CorruptRecordError):
            ds[6]
    with DenseDataset(path, verify="once") as ds, pytest.raises(CorruptRecordError):
        ds[5]


def test_damage_in_one_stream_goes_from_all(tmp_path: Path) -> None:
    from_numpy(tmp_path / "image", ROWS, "raw")
    from_iterator(tmp_path / "token", (row[: i % 7] for i, row in enumerate(ROWS)), np.int32)
    flip(tmp_path / "image" / "0.chunk", 3 * 100)
    flip(tmp_path / "token" / "0.sum", 9 * 4)
    reports = MSDataset.verify(tmp_path)
    assert {name: report.damaged.tolist() for name, report in reports.items()} == {"image": [3], "token": [9]}
    assert MSDataset.drop_damaged(tmp_path).tolist() == [3, 9]
    with MSDataset(tmp_path) as streams:
        assert len(streams) == 58
        for i, origin in ((2, 2), (3, 58), (9, 59), (57, 57)):
            assert same(streams["image"][i], ROWS[origin])
            assert same(streams["token"][i], ROWS[origin, : origin % 7])
    assert all(report.ok for report in MSDataset.verify(tmp_path).values())
    assert MSDataset.drop_damaged(tmp_path).size == 0


def two_streams(home: Path) -> None:
    from_numpy(home / "a", ROWS, "raw")
    from_numpy(home / "b", ROWS, "raw")


def test_a_stream_of_several_is_not_cut_alone(tmp_path: Path) -> None:
    two_streams(tmp_path)
    flip(tmp_path / "b" / "0.chunk", 100)
    with pytest.raises(ValueError, match=r"neighbours \['a'\] .* MSDataset.drop_damaged"):
        repair(tmp_path / "b", drop_damaged=True)
    assert repair(tmp_path / "b").dropped.size == 0
    assert MSDataset.drop_damaged(tmp_path).tolist() == [1]
    flip(tmp_path / "b" / "0.chunk", 0)
    assert repair(tmp_path / "b", drop_damaged=True, alone=True).dropped.tolist() == [0]


def test_what_was_looked_at_must_still_be_there_to_be_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two_streams(tmp_path)
    flip(tmp_path / "b" / "0.chunk", 59 * 100)
    check = MSDataset.verify

    def checked_too_early(path: Path, **options: Any) -> Any:
        reports = check(path, **options)
        with MSDataset(path) as streams:
            streams.delete([0])
        return reports

    monkeypatch.setattr(MSDataset, "verify", checked_too_early)
    with pytest.raises(StaleStoreError, match="nothing was deleted"):
        MSDataset.drop_damaged(tmp_path)
    monkeypatch.undo()
    assert MSDataset.drop_damaged(tmp_path).tolist() == [0]
    with MSDataset(tmp_path) as streams:
        assert len(streams) == 58
        assert same(streams["a"][:], streams["b"][:])


def test_damage_that_is_not_that_of_records_is_not_passed_over(tmp_path: Path) -> None:
    two_streams(tmp_path)
    (tmp_path / "b" / "0.sum").unlink()
    with pytest.raises(CorruptStoreError):
        MSDataset.drop_damaged(tmp_path)
    done = repair(tmp_path / "b")
    assert "rebuild_sums=True takes the bytes as they are" in str(done)
    repair(tmp_path / "b", rebuild_sums=True)
    assert MSDataset.drop_damaged(tmp_path).size == 0


def test_a_stream_that_lost_its_schema_is_missed(tmp_path: Path) -> None:
    two_streams(tmp_path)
    (tmp_path / "b" / "schema.msgpack").unlink()
    with pytest.raises(CorruptStoreError, match="schema"):
        MSDataset(tmp_path)
    with MSDataset(tmp_path, ["a"]) as streams, pytest.raises(ValueError, match=r"has the streams \['b'\] too"):
        streams.delete([0])


def test_progress_must_be_callable(tmp_path: Path) -> None:
    path, number = dense(tmp_path), 3
    for work in (verify, repair):
        with pytest.raises(TypeError, match="progress: expected a function"):
            work(path, progress=number)  # type: ignore[arg-type]
