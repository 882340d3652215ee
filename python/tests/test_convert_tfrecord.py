from __future__ import annotations

import struct
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from converting import (
    FIXTURES,
    assert_holds,
    begins_everywhere,
    converted,
    cuts,
    damaged,
    flips,
    records_from,
    resumes_everywhere,
    selects,
    small_parts,
    source_of,
    texts,
    writes_nothing,
)
from hypothesis import given
from hypothesis import strategies as st
from loaderx._core import parse_examples, scan_examples, tfrecord_walk
from loaderx.converters import convert
from loaderx.converters.formats import tfrecord
from loaderx.converters.formats.frames import read_frames

FILES = FIXTURES / "tfrecord"
PLAIN = [FILES / "plain.tfrecord-00000-of-00002", FILES / "plain.tfrecord-00001-of-00002"]
SOURCES = {"plain": PLAIN, "gzip": FILES / "gzip.tfrecord.gz", "zlib": FILES / "zlib.tfrecord.zlib"}
FEATURES = {
    "label": ("int64", ()),
    "box": ("float", (2, 2)),
    "image/encoded": "bytes",
    "caption": "text",
    "words": "bytes[]",
    "tokens": "int64",
    "weights": "float",
}


def holds(streams: Any, count: int = 12) -> None:
    """What `fixtures/convert/write_tfrecord.py` wrote."""
    assert_holds(streams["label"], np.arange(count) - 3, "<i8")
    boxes = np.array([[i, -0.5 * i, 1e30, np.float32(1) / 3] for i in range(count)], np.float32)
    assert_holds(streams["box"], boxes.reshape(streams["box"].records.shape), "<f4")
    assert_holds(streams["tokens"], [[-(2**63) + i, 2**63 - 1, *range(i)] for i in range(count)], "<i8")
    assert_holds(streams["image.encoded"], [[i] * (i * 3) for i in range(count)], "u1")
    assert_holds(streams["words"], [list(b"w" * sum(range(i % 4))) for i in range(count)], "u1")
    assert_holds(streams["words.lengths"], [list(range(i % 4)) for i in range(count)], "<i8")
    assert_holds(streams["weights"], [list(range(i % 3)) for i in range(count)], "<f4")
    assert [bytes(caption).decode() for caption in streams["caption"].records] == [f"h\u00e9 {i}" for i in range(count)]


@pytest.mark.parametrize("name", SOURCES)
def test_the_features_that_tensorflow_wrote(tmp_path: Path, name: str) -> None:
    streams = converted(SOURCES[name], tmp_path / "out")
    holds(streams)
    assert streams["box"].item_shape == (4,)
    assert streams["label"].item_shape == ()


@pytest.mark.parametrize("name", SOURCES)
def test_features_that_are_given(tmp_path: Path, name: str) -> None:
    streams = converted(SOURCES[name], tmp_path / "out", features=FEATURES)
    holds(streams)
    assert streams["box"].item_shape == (2, 2)
    assert texts(streams["caption"])[5] == "h\u00e9 5"


@pytest.mark.parametrize("options", [{}, {"features": FEATURES}, {"examples": False}])
@pytest.mark.parametrize("name", SOURCES)
def test_it_begins_and_resumes_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, options: Any
) -> None:
    small_parts(monkeypatch, 500)
    begins_everywhere(SOURCES[name], **options)
    assert resumes_everywhere(SOURCES[name], tmp_path, most=3, **options) > 3


def test_each_stream_alone(tmp_path: Path) -> None:
    selects(PLAIN, tmp_path)


def test_records_as_they_are(tmp_path: Path) -> None:
    want = [b"", b"x", b"abc" * 99, bytes(range(256))]
    for options in ({}, {"examples": False}):
        streams = converted(FILES / "raw.tfrecord", tmp_path / f"out{len(options)}", **options)
        assert [record.tobytes() for record in streams[""].records] == want
    with source_of(SOURCES["gzip"], examples=False) as source:
        assert source.records is None


def test_a_dry_run_says_what_it_would_do(tmp_path: Path) -> None:
    said = writes_nothing(PLAIN, tmp_path)
    assert "TFRecord, 2 files" in said
    assert "12 records" in said
    assert "box: dense (4,) '<f4', zstd, from feature 'box': float" in said


def test_features_that_some_records_lack(tmp_path: Path) -> None:
    path = FILES / "lacking.tfrecord"
    lacks = [i % 3 == 1 for i in range(7)]
    with pytest.raises(ValueError, match=r"feature 'label': 2 of 7 records don't have it.*lacking.*nulls='mask'"):
        convert(path, tmp_path / "refused" / "a")
    assert "label" not in converted(path, tmp_path / "b", streams=["box"])
    for options in ({}, {"features": {"label": ("int64", ())}}):
        streams = converted(path, tmp_path / f"c{len(options)}", nulls="mask", **options)
        assert_holds(streams["label"], np.array([0 if lack else i for i, lack in enumerate(lacks)]))
        assert_holds(streams["label.valid"], ~np.array(lacks))
        assert ("box.valid" in streams) is False
    with pytest.raises(ValueError, match="lacking.tfrecord: record 1 has no feature 'label'"):
        convert(path, tmp_path / "d", features={"label": "int64"})


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("kinds", {}, 'kinds.tfrecord: record 1: feature "label" is float, expected int64'),
        ("kinds", {"features": {"label": "int64"}}, 'record 1: feature "label" is float, expected int64'),
        ("sequence", {}, "tf.train.SequenceExample; examples=False"),
        ("raw", {"examples": True}, "record 1: expected a tf.train.Example, found bytes.*examples=False"),
        ("lacking", {"features": {"box": ("float", (3,))}}, "record 0, feature 'box': expected 3 .* found 4"),
        ("lacking", {"features": {"words": "bytes"}}, "record 0, feature 'words': expected 1 .* found 0"),
        ("lacking", {"features": {"label": "int32"}}, "features: expected 'bytes'.*'label', found 'int32'"),
        ("lacking", {"features": {}}, "features: expected names with kinds"),
        ("lacking", {"features": {"box": "float"}, "examples": False}, "expected none with examples=False"),
        ("lacking", {"nulls": "drop"}, "nulls: expected 'refuse' or 'mask', found 'drop'"),
    ],
)
def test_what_is_refused(tmp_path: Path, name: str, options: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        convert(FILES / f"{name}.tfrecord", tmp_path / "out", **options)


@pytest.mark.parametrize("options", [{}, {"examples": False}, {"features": {"label": ("int64", ())}}])
@pytest.mark.parametrize("name", ["lacking.tfrecord", "gzip.tfrecord.gz", "zlib.tfrecord.zlib"])
def test_damage_is_an_error_that_names_the_file(tmp_path: Path, name: str, options: Any) -> None:
    file = tmp_path / name
    file.write_bytes((FILES / name).read_bytes())
    whole = file.read_bytes()
    options = {"nulls": "mask", **options}
    before = everything(file, options)
    for damage in damaged(file, [*flips(whole, 150), *cuts(whole)]):
        try:
            after = everything(file, options)
        except (ValueError, OSError) as error:
            if name not in str(error):
                raise
            continue
        # A file may end between two records, and some bytes of a gzip header say nothing that matters.
        assert "cut" in damage or after == before, damage
        assert "cut" in damage or name.endswith("gz"), damage


def everything(file: Path, options: Any) -> dict[str, list[bytes]]:
    """All streams, as bytes."""
    with source_of(file, "tfrecord", **options) as source:
        found = records_from(source, 0, [spec.name for spec in source.streams])
        return {name: [record.tobytes() for record in records] for name, records in found.items()}


def frame(data: bytes, length: int | None = None) -> bytes:
    """A frame, with sums by the naive way."""
    size = struct.pack("<Q", len(data) if length is None else length)
    return size + struct.pack("<I", masked(size)) + data + struct.pack("<I", masked(data))


def masked(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


@pytest.mark.parametrize("length", [1 << 20, 1 << 33, 1 << 62, 2**64 - 1, 2**64 - 16])
@pytest.mark.parametrize("options", [{}, {"examples": False}])
def test_a_forged_length_takes_no_memory(tmp_path: Path, length: int, options: Any) -> None:
    (tmp_path / "x.tfrecord").write_bytes(frame(b"abc") + frame(b"abc", length))
    with pytest.raises(ValueError, match="x.tfrecord: the record at byte 19"):
        convert(tmp_path / "x.tfrecord", tmp_path / "out", **options)


@given(st.lists(st.binary(max_size=40), max_size=12), st.integers(0, 400))
def test_the_walk_finds_what_a_naive_writer_wrote(records: list[bytes], cut: int) -> None:
    content = b"".join(map(frame, records))
    starts, lengths, end, wanted = tfrecord_walk(content, 0, True)
    assert [content[a : a + n] for a, n in zip(starts.tolist(), lengths.tolist(), strict=True)] == records
    assert (end, wanted) == (len(content), 0)
    starts, lengths, end, wanted = tfrecord_walk(content[:cut], 0, True)
    assert [content[a : a + n] for a, n in zip(starts.tolist(), lengths.tolist(), strict=True)] == records[
        : len(starts)
    ]
    assert end == sum(len(record) + 16 for record in records[: len(starts)]) <= min(cut, len(content))
    assert tfrecord_walk(content, 0, False)[2] == len(content)


@given(st.binary(max_size=60))
def test_any_bytes_are_an_example_or_an_error(content: bytes) -> None:
    place = np.zeros(1, np.uint64), np.full(1, len(content), np.uint64)
    try:
        seen = scan_examples(content, *place, 0)
    except ValueError as error:
        if not str(error).startswith("record 0: "):
            raise
        return
    for name, kind, present, least, most, first in seen:
        assert (present, first) == (1 if kind else 0, 0)
        assert least == most or kind is None
        if kind:
            ((counts, values, sizes),) = parse_examples(content, *place, 0, [(name, kind)])
            assert counts.tolist() == [most] == [len(values if sizes is None else sizes)]


def field(number: int, content: bytes) -> bytes:
    """A protocol buffer's field of at most 127 bytes."""
    return bytes([number << 3 | 2, len(content)]) + content


def example_of(**features: int) -> bytes:
    """An Example of features with one small number each."""
    lists = {name: field(3, field(1, bytes([value]))) for name, value in features.items()}
    return field(1, b"".join(field(1, field(1, name.encode()) + field(2, value)) for name, value in lists.items()))


def test_a_feature_may_be_called_as_others_streams_would_be(tmp_path: Path) -> None:
    (tmp_path / "x.tfrecord").write_bytes(frame(example_of(**{"a": 1, "a.valid": 2, "a.lengths": 3})))
    streams = converted(tmp_path / "x.tfrecord", tmp_path / "out", nulls="mask")
    assert {name: int(stream.records[0]) for name, stream in streams.items()} == {"a": 1, "a.valid": 2, "a.lengths": 3}
    (tmp_path / "y.tfrecord").write_bytes(
        frame(example_of(**{"a.valid": 2})) + frame(example_of(**{"a": 1, "a.valid": 2}))
    )
    with pytest.raises(ValueError, match=r"two streams would be called 'a\.valid'"):
        convert(tmp_path / "y.tfrecord", tmp_path / "never", nulls="mask")


@pytest.mark.parametrize("name", ["..", ".", "", "a\0b"])
@pytest.mark.parametrize("others", [{}, {"z": 1}])
def test_a_feature_that_no_directory_may_be_called_as(tmp_path: Path, name: str, others: dict[str, int]) -> None:
    (tmp_path / "x.tfrecord").write_bytes(frame(example_of(**{name: 1, **others})))
    given: list[dict[str, Any]] = [{}, {"features": {name: "int64"}}]
    for options in given:
        with pytest.raises(ValueError, match="feature .*: int64: a stream is a directory, and can't have the name"):
            convert(tmp_path / "x.tfrecord", tmp_path / "out", **options)
    assert [path.name for path in tmp_path.iterdir()] == ["x.tfrecord"]


def test_places_outside_the_buffer_are_refused() -> None:
    for start, length in [(0, 9), (9, 0), (2**64 - 1, 1), (1, 2**64 - 1)]:
        places = np.array([start], np.uint64), np.array([length], np.uint64)
        with pytest.raises(ValueError, match="not within the 8 bytes"):
            scan_examples(b"12345678", *places, 0)


def test_files_are_known_by_name_or_by_their_first_bytes(tmp_path: Path) -> None:
    (tmp_path / "train-00000-of-00002").write_bytes(frame(b"a"))
    (tmp_path / "train-00001-of-00002").write_bytes(frame(b"b"))
    (tmp_path / ".train-00002-of-00002").write_bytes(b"hidden")
    assert len(converted(tmp_path, tmp_path.parent / f"{tmp_path.name}-a")[""].records) == 2
    (tmp_path / "anything").write_bytes(frame(b"c"))
    assert converted(tmp_path / "anything", tmp_path.parent / f"{tmp_path.name}-b")[""].records[0].tobytes() == b"c"
    with pytest.raises(ValueError, match="found nothing to convert"):
        convert(FILES / "VERSIONS", tmp_path / "c")


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
def test_files_that_tensorflow_writes_now(tmp_path: Path, compression: str) -> None:
    tf = pytest.importorskip("tensorflow")
    with tf.io.TFRecordWriter(str(tmp_path / "x.tfrecord"), options=compression or None) as writer:
        for i in range(50):
            value = tf.train.Feature(int64_list=tf.train.Int64List(value=[i] * 3))
            feature = {"a": value, "b": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"x" * i]))}
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    streams = converted(tmp_path / "x.tfrecord", tmp_path / "out")
    assert_holds(streams["a"], np.repeat(np.arange(50), 3).reshape(50, 3))
    assert_holds(streams["b"], [[ord("x")] * i for i in range(50)])


def numbered(directory: Path, files: int, records: int) -> None:
    directory.mkdir()
    for at in range(files):
        content = frame(example_of(a=at % 100)) * records
        (directory / f"{at}.tfrecord").write_bytes(content)


@pytest.mark.parametrize("workers", [1, 3])
def test_the_first_pass_takes_as_many_threads_as_are_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    numbered(tmp_path / "in", 12, 3)
    threads: set[int] = set()
    all_there = threading.Barrier(workers)
    survey = tfrecord.surveyed

    def noted(*given: Any) -> Any:
        threads.add(threading.get_ident())
        if len(threads) <= workers:
            all_there.wait(30)
        return survey(*given)

    monkeypatch.setattr(tfrecord, "surveyed", noted)
    streams = converted(tmp_path / "in", tmp_path / "out", workers=workers)
    assert_holds(streams["a"], np.repeat(np.arange(12), 3))
    assert len(threads) == workers


def test_the_first_pass_ends_where_it_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one file raises, as Ctrl-C does in the thread that waits, ends the reading of the others before their end."""
    numbered(tmp_path / "in", 2, 40)
    small_parts(monkeypatch, 50)
    (tmp_path / "in" / "0.tfrecord").write_bytes(frame(example_of(a=1)) * 5 + frame(b"\xff"))
    read, other = [], threading.Event()

    def slowly(file: Path, how: str | None) -> Any:
        for at, frames in enumerate(read_frames(file, how)):
            if file.name == "0.tfrecord" and at:
                other.wait(30)
            elif file.name == "1.tfrecord":
                read.append(at)
                other.set()
                time.sleep(0.05)
            yield frames

    monkeypatch.setattr("loaderx.converters.formats.tfrecord.read_frames", slowly)
    with pytest.raises(ValueError, match=r"0\.tfrecord: record 5: expected a tf.train.Example.*examples=False"):
        convert(tmp_path / "in", tmp_path / "out", workers=2, examples=True)
    assert 0 < len(read) < sum(1 for _ in read_frames(tmp_path / "in" / "1.tfrecord", None))


@pytest.mark.parametrize("options", [{}, {"examples": True}])
def test_kinds_that_differ_between_files(tmp_path: Path, options: Any) -> None:
    numbered(tmp_path / "in", 1, 3)
    lists = field(2, field(1, struct.pack("<f", 1.5)))
    (tmp_path / "in" / "1.tfrecord").write_bytes(frame(field(1, field(1, field(1, b"a") + field(2, lists)))))
    with pytest.raises(ValueError, match=r"1\.tfrecord: feature 'a' is float, and before int64; examples=False"):
        convert(tmp_path / "in", tmp_path / "out", **options)


def test_examples_without_features(tmp_path: Path) -> None:
    (tmp_path / "x.tfrecord").write_bytes(frame(b"") * 3)
    with pytest.raises(ValueError, match=r"x\.tfrecord: the records have no features; examples=False"):
        convert(tmp_path / "x.tfrecord", tmp_path / "out", examples=True)
    (tmp_path / "x.tfrecord").write_bytes(frame(b"") + frame(example_of(a=1)))
    streams = converted(tmp_path / "x.tfrecord", tmp_path / "out", nulls="mask")
    assert_holds(streams["a.valid"], np.array([False, True]))
