from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from converting import (
    FIXTURES,
    begins_everywhere,
    converted,
    needed,
    records_from,
    resumes_everywhere,
    small_parts,
    source_of,
    writes_nothing,
)
from loaderx._core import tfrecord_walk
from loaderx.converters import convert
from loaderx.converters.formats import array_record
from test_convert_tfrecord import FEATURES, holds

module = needed("array_record.python.array_record_module")
RECORDS = [bytes([i]) * (i * 11) for i in range(50)]


def write(path: Path, records: list[bytes], options: str = "group_size:4") -> Path:
    writer = module.ArrayRecordWriter(str(path), options)
    for record in records:
        writer.write(record)
    writer.close()
    return path


def examples(directory: Path) -> Path:
    """Those that tensorflow wrote, in two files."""
    for part in range(2):
        shard = f"-{part:05}-of-00002"
        content = (FIXTURES / "tfrecord" / f"plain.tfrecord{shard}").read_bytes()
        starts, lengths, _, _ = tfrecord_walk(content, 0, True)
        records = [content[a : a + n] for a, n in zip(starts.tolist(), lengths.tolist(), strict=True)]
        write(directory / f"x.array_record{shard}", records)
    return directory


@pytest.mark.parametrize(
    "options", ["group_size:1", "group_size:4,zstd", "group_size:4,uncompressed", "group_size:65536,brotli"]
)
def test_records_as_they_are(tmp_path: Path, options: str) -> None:
    path = write(tmp_path / "x.array_record", RECORDS, options)
    streams = converted(path, tmp_path / "out")
    assert [record.tobytes() for record in streams[""].records] == RECORDS


@pytest.mark.parametrize("options", [{}, {"features": FEATURES}])
def test_features_of_examples(tmp_path: Path, options: Any) -> None:
    (tmp_path / "in").mkdir()
    holds(converted(examples(tmp_path / "in"), tmp_path / "out", **options))


@pytest.mark.parametrize("options", [{}, {"examples": False}])
def test_it_begins_and_resumes_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: Any) -> None:
    (tmp_path / "in").mkdir()
    small_parts(monkeypatch, 1 << 17)
    begins_everywhere(examples(tmp_path / "in"), **options)
    assert resumes_everywhere(tmp_path / "in", tmp_path, most=3, **options) > 1


def test_a_dry_run_says_what_it_would_do(tmp_path: Path) -> None:
    assert "ArrayRecord" in writes_nothing(write(tmp_path / "x.array_record", RECORDS), tmp_path)


def test_what_is_refused(tmp_path: Path) -> None:
    mixed = write(tmp_path / "mixed.array_record", [b"", b"\xff"])
    with pytest.raises(ValueError, match="mixed.array_record: record 1: expected a tf.train.Example"):
        convert(mixed, tmp_path / "out", examples=True)
    with pytest.raises(ValueError, match="expected none with examples=False"):
        convert(mixed, tmp_path / "out", examples=False, features={"a": "bytes"})


def test_damaged_files(tmp_path: Path) -> None:
    path = tmp_path / "x.array_record"
    records = [np.random.default_rng(i).bytes(3000) for i in range(40)]
    write(path, records, "group_size:2,uncompressed")
    whole = path.read_bytes()
    refused = 0
    for at in range(0, len(whole), len(whole) // 16):
        wrong = bytearray(whole)
        wrong[at : at + 64] = bytes(64)
        path.write_bytes(wrong)
        try:
            assert everything(path) == records
        except ValueError as error:
            if "x.array_record" not in str(error):
                raise
            refused += 1
    assert refused > 6
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="x.array_record"):
        everything(path)


def everything(path: Path) -> list[bytes]:
    """All records."""
    with source_of(path) as source:
        return [record.tobytes() for record in records_from(source, 0, [""])[""]]


def test_files_are_open_only_while_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    for at in range(20):
        write(tmp_path / f"in/{at}.array_record", RECORDS[at : at + 2])
    opened: set[int] = set()
    most = 0

    class Counted(array_record.Reader):
        def __init__(self, file: Path) -> None:
            nonlocal most
            super().__init__(file)
            opened.add(id(self))
            most = max(most, len(opened))

        def close(self) -> None:
            opened.remove(id(self))
            super().close()

    monkeypatch.setattr(array_record, "Reader", Counted)
    found = converted(tmp_path / "in", tmp_path / "out", workers=2)[""].records
    assert [record.tobytes() for record in found] == [one for at in range(20) for one in RECORDS[at : at + 2]]
    assert 0 < most < 10
    assert not opened
    (tmp_path / "in/19.array_record").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"19\.array_record: expected an ArrayRecord file"):
        everything(tmp_path / "in")
    assert not opened


def test_the_first_record_may_be_empty(tmp_path: Path) -> None:
    records = [b"", *(bytes(10) for _ in range(2))]
    path = write(tmp_path / "x.array_record", records)
    assert everything(path) == records
    with pytest.raises(
        ValueError, match=r"x\.array_record: record 1: expected a tf.train.Example.*; examples=False takes"
    ):
        convert(path, tmp_path / "out", examples=True)
