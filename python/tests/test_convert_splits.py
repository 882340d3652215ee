"""Directories that hold several splits of a data set."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from converting import FIXTURES, assert_holds, converted
from hypothesis import given
from hypothesis import strategies as st
from loaderx.converters import convert
from loaderx.converters.formats.splits import SPLITS, split_of

WRITERS: dict[str, Callable[[Path, int], object]] = {
    ".npy": lambda path, value: np.save(path, np.full(3, value)),
    ".npz": lambda path, value: np.savez(path, x=np.full(3, value)),
    ".csv": lambda path, value: path.write_text(f"x\n{value}\n"),
}


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("train-00000-of-00002.parquet", "train"),
        ("data/test-00000-of-00001.parquet", "test"),
        ("squad-validation.arrow", "validation"),
        ("dev-set-train.arrow", "train"),
        ("my_training_file.csv", "train"),
        ("x.eval.0.npy", "test"),
        ("val1.csv", "validation"),
        ("Train.csv", "train"),
        ("train/part-0.parquet", "train"),
        ("dev/test-0.parquet", "test"),
        ("test/deep/0.parquet", "test"),
        ("x.tfrecord-00000-of-00002", None),
        ("strain.csv", None),
        ("latest.csv", None),
        ("values.csv", None),
        ("device/testbed/trains.csv", None),
        ("\u00e9test.csv", None),
    ],
)
def test_the_split_of_a_name(name: str, split: str | None) -> None:
    assert split_of(Path(name).parts) == split


@given(
    before=st.text("xyz", max_size=2),
    apart=st.sampled_from(["", "-", "_", ".", " ", "7"]),
    split=st.sampled_from(sorted(SPLITS)),
    at=st.integers(0, 3),
)
def test_a_split_is_a_word_by_itself(before: str, apart: str, split: str, at: int) -> None:
    word = SPLITS[split][at % len(SPLITS[split])]
    assert split_of([f"{before}{apart}{word}{apart}00.csv"]) == (split if apart or not before else None)


@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize("names", [("train-{}", "test-{}"), ("train/{}", "val/{}"), ("x-dev-{}", "x-eval-{}", "x-{}")])
def test_splits_are_not_mixed(memory: Path, suffix: str, names: tuple[str, ...]) -> None:
    files = [memory / "in" / f"{name.format(at)}{suffix}" for name in names for at in range(2)]
    for value, file in enumerate(files):
        file.parent.mkdir(parents=True, exist_ok=True)
        WRITERS[suffix](file, value)
    with pytest.raises(
        ValueError, match=r"in: expected files of one split, found those of (test|train) \(2, such as .*0"
    ):
        convert(memory / "in", memory / "out")
    stream = next(iter(converted(files, memory / "listed").values()))
    assert sorted(set(np.asarray(stream.records).tolist())) == list(range(len(files)))
    for file in files[2:]:
        file.unlink()
    stream = next(iter(converted(memory / "in", memory / "one").values()))
    assert sorted(set(np.asarray(stream.records).tolist())) == [0, 1]


def test_other_splits_are_named(memory: Path) -> None:
    (memory / "in").mkdir()
    for name in ("test-0", "train-0", "train-1", "rest"):
        np.save(memory / f"in/{name}.npy", np.zeros(2))
    said = (
        r"in: expected files of one split, found those of test \(1, such as test-0.npy\), train \(2, such as train-0.npy\); "
        "convert the files or the directory of one split, or list the files"
    )
    with pytest.raises(ValueError, match=said):
        convert(memory / "in", memory / "out", dry_run=True)


def test_splits_of_records(memory: Path) -> None:
    """Formats with ways of their own to find files."""
    record = (FIXTURES / "tfrecord" / "raw.tfrecord").read_bytes()
    index = json.dumps({"version": 2, "shards": [], "format": "mds"})
    for name, content in (
        ("a/train-0.tfrecord", record),
        ("a/val-0.tfrecord", record),
        ("b/train-00000-of-00001", record),
        ("b/validation-00000-of-00001", record),
        ("c/train-0.tar", bytes(10240)),
        ("c/val-0.tar", bytes(10240)),
        ("d/train/index.json", index.encode()),
        ("d/val/index.json", index.encode()),
        ("e/train.array_record", b""),
        ("e/val.array_record", b""),
        ("f/train.h5", b""),
        ("f/val.h5", b""),
    ):
        (memory / name).parent.mkdir(parents=True, exist_ok=True)
        (memory / name).write_bytes(content)
    for directory in "abcdef":
        with pytest.raises(ValueError, match=r"found those of train \(1, .*\), validation \(1"):
            convert(memory / directory, memory / "out")
    assert_holds(
        converted(memory / "b/train-00000-of-00001", memory / "one")[""],
        [list(one) for one in (b"", b"x", b"abc" * 99, range(256))],
    )
