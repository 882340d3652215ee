"""The frame of `convert`, with the simplest of its formats."""

from __future__ import annotations

import itertools
import os
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import loaderx.converters.finding as finding
import numpy as np
import pytest
from converting import (
    assert_holds,
    converted,
    selects,
    writes_nothing,
)
from converting_numbers import Numbers, known_numbers, numbered, two_files
from fixtures.stores import unpacked
from loaderx.__main__ import main
from loaderx.converters import convert
from loaderx.converters.encoding import chosen
from loaderx.converters.source import ITSELF, Block
from loaderx.dataset import DenseDataset, MSDataset, Packed
from loaderx.zrecord import CorruptStoreError, ZrecordError
from support import Array, same


@pytest.fixture
def array() -> Array:
    return numbered()


@pytest.fixture
def npy(tmp_path: Path) -> Path:
    return two_files(tmp_path / "npy")


@pytest.fixture
def numbers(monkeypatch: pytest.MonkeyPatch) -> str:
    return known_numbers(monkeypatch)


def test_files_in_natural_order(tmp_path: Path, npy: Path, array: Array) -> None:
    assert_holds(converted(npy, tmp_path / "out")[ITSELF], array)
    files = [npy / "part-10.npy", str(npy / "part-2.npy")]
    assert_holds(converted(files, tmp_path / "listed")[ITSELF], np.concatenate([array[100:], array[:100]]))


def test_what_is_at_the_destination_stays(tmp_path: Path, npy: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(FileExistsError, match="something already"):
        convert(npy, tmp_path / "out")
    with pytest.raises(FileExistsError, match="something already"):
        convert(npy, tmp_path / "out", restart=True)
    assert (tmp_path / "out").read_text() == "mine"


def test_check_finds_a_difference(tmp_path: Path, npy: Path, numbers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    block = Numbers.block
    reads = iter(range(100))

    def forgetful(self: Numbers, start: int, stop: int, names: Sequence[str]) -> Block:
        """The second time, record 23 has another length."""
        found = block(self, start, stop, names)
        if next(reads) >= 8 and start == 21:
            packed = found["run"]
            assert isinstance(packed, Packed)
            packed.offsets[2] += 1
        return found

    monkeypatch.setattr(Numbers, "block", forgetful)
    with pytest.raises(CorruptStoreError, match="record 22 of stream 'run' is not what the source has"):
        convert({numbers}, tmp_path / "out", check=True)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("counted", [True, False])
def test_progress(tmp_path: Path, numbers: str, counted: bool) -> None:
    calls: list[tuple[int, int | None]] = []
    done = convert(
        {numbers}, tmp_path / "out", progress=lambda *both: calls.append(both), last=20, counted=counted, workers=1
    )
    total = 20 if counted else None
    assert calls == [(0, total), (7, total), (14, total), (20, total)]
    assert done.records == 20


def test_a_source_that_counts_wrongly(tmp_path: Path, numbers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Numbers, "records", 49)
    with pytest.raises(ZrecordError, match="said that it has 49 records, and gave 50"):
        convert({numbers}, tmp_path / "out")


def test_streams(tmp_path: Path, numbers: str) -> None:
    selects({numbers}, tmp_path)
    with pytest.raises(ValueError, match=r"expected some of \['square', 'run'\], found \['cube'\]"):
        convert({numbers}, tmp_path / "out", streams=["cube"])
    with pytest.raises(ValueError, match="names of child directories, found '../up'"):
        convert({numbers}, tmp_path / "out", streams={"../up": "square"})
    streams = converted({numbers}, tmp_path / "out", streams={"a": "square", "b": "square"})
    assert same(streams["a"].records, streams["b"].records)
    assert streams["a"].metadata == {"unit": "m"}


def test_codecs(tmp_path: Path, numbers: str, dictionary: bytes) -> None:
    convert(
        {numbers},
        tmp_path / "out",
        streams={"run": "run", "a": "square", "b": "square"},
        codec={"run": "raw", "a": "zstd_dict"},
        dict_bytes={"a": dictionary},
    )
    with MSDataset(tmp_path / "out") as ds:
        assert {name: stream.codec for name, stream in ds.streams.items()} == {
            "run": "raw",
            "a": "zstd_dict",
            "b": "zstd",
        }
        assert ds["a"].has_dict()
        assert same(ds["a"][:], np.arange(50) ** 2)
    with pytest.raises(ValueError, match="codec: expected some of the streams"):
        convert({numbers}, tmp_path / "other", codec={"cube": "raw"})
    with pytest.raises(ValueError, match="zstd_dict' needs dict_bytes for stream 'square'"):
        convert({numbers}, tmp_path / "other", codec={"square": "zstd_dict"})


def test_a_dry_run(tmp_path: Path, npy: Path, numbers: str) -> None:
    assert writes_nothing({numbers}, tmp_path) == (
        "Numbers, in memory: 50 records\n"
        f"  {tmp_path}/nothing/square: dense () '<i8', zstd, from column 'x'\n"
        f"  {tmp_path}/nothing/run: ragged '|u1', zstd"
    )
    assert writes_nothing(npy, tmp_path, codec="raw") == (
        f"NumPy .npy, 2 files from {npy}/part-2.npy to {npy}/part-10.npy: 200 records\n"
        f"  {tmp_path}/nothing: dense (3,) '<i4', raw"
    )
    assert "as many records as there are" in writes_nothing({numbers}, tmp_path, counted=False)


def test_what_can_not_be_converted(tmp_path: Path, npy: Path, numbers: str) -> None:
    with pytest.raises(FileNotFoundError):
        convert(tmp_path / "nothing", tmp_path / "out")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="found nothing to convert here; expected NumPy .npy"):
        convert(tmp_path / "empty", tmp_path / "out")
    with pytest.raises(ValueError, match=r"this builtins\.int: found nothing"):
        convert(7, tmp_path / "out")
    with pytest.raises(ValueError, match=r"this numpy\.ndarray: an array in memory is written by loaderx\.from_numpy"):
        convert(np.zeros(3), tmp_path / "out")
    with pytest.raises(ValueError, match=r"expected .*, all of one format"):
        convert([tmp_path / "empty", npy], tmp_path / "out")
    with pytest.raises(ValueError, match="format: expected one of npy, .*found 'nyp'"):
        convert(npy, tmp_path / "out", format="nyp")
    with pytest.raises(TypeError, match="NumPy .npy has no option colour: it has dtype"):
        convert(npy, tmp_path / "out", colour="red")
    with pytest.raises(TypeError, match="Numbers has no option colour: it has last, counted"):
        convert({numbers}, tmp_path / "out", colour="red")
    with pytest.raises(ValueError, match="workers"):
        convert(npy, tmp_path / "out", workers=0)
    assert sorted(tmp_path.iterdir()) == [tmp_path / "empty", npy]


def test_stores_need_no_conversion(tmp_path: Path, npy: Path) -> None:
    convert(npy, tmp_path / "all" / "store")
    for path in (tmp_path / "all" / "store", tmp_path / "all"):
        with pytest.raises(ValueError, match=r"a store of loaderx needs no conversion; loaderx\.recode"):
            convert(path, tmp_path / "out")
    older = unpacked("0.9.11", tmp_path / "older", "images-zstd") / "images-zstd"
    with pytest.raises(ZrecordError, match=r"loaderx\.migrate"):
        convert(older, tmp_path / "out")


def test_a_record_that_can_not_be_stored(tmp_path: Path, numbers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    block = Numbers.block

    def wrong(self: Numbers, start: int, stop: int, names: Sequence[str]) -> Block:
        found = block(self, start, stop, names)
        return found if start < 14 else found | {"square": np.zeros(stop - start, np.float32)}

    monkeypatch.setattr(Numbers, "block", wrong)
    with pytest.raises(ValueError, match="stream 'square'.*expected dtype '<i8', found '<f4'") as caught:
        convert({numbers}, tmp_path / "out")
    notes = getattr(caught.value, "__notes__", None)
    assert notes is None or "record 14 of the source" in notes[0]


def test_a_source_without_records(tmp_path: Path, numbers: str) -> None:
    streams = converted({numbers}, tmp_path / "out", last=0)
    assert same(streams["square"].records, np.zeros(0, np.int64))
    assert streams["run"].records == []


def test_memory_is_bounded(tmp_path: Path) -> None:
    np.save(tmp_path / "array.npy", np.zeros((256, 1 << 20), np.uint8))
    tracemalloc.start()
    try:
        convert(tmp_path / "array.npy", tmp_path / "out", workers=2)
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()
    with DenseDataset(tmp_path / "out") as ds:
        assert len(ds) == 256


@pytest.mark.parametrize("check", [False, True])
def test_progress_as_a_line(tmp_path: Path, numbers: str, check: bool, capsys: pytest.CaptureFixture[str]) -> None:
    convert({numbers}, tmp_path / "out", progress=True, check=check)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "writing:   0 %"
    assert lines[-1] == ("comparing: 100 %" if check else "writing: 100 %")


def test_files_that_are_links(tmp_path: Path, npy: Path, array: Array) -> None:
    """Links to files and to directories are followed, but not in circles; one to nothing is told, and not left out."""
    inner = tmp_path / "in"
    (inner / "deep").mkdir(parents=True)
    (inner / "a.npy").symlink_to(npy / "part-2.npy")
    (inner / "deep" / "b").symlink_to(npy)
    (inner / "deep" / "up").symlink_to(inner)
    (inner / "deep" / ".b").symlink_to(npy)
    assert_holds(converted(inner, tmp_path / "out")[ITSELF], np.concatenate([array[:100], array]))
    (inner / "c.npy").symlink_to(tmp_path / "nothing.npy")
    with pytest.raises(FileNotFoundError, match=r"c\.npy"):
        convert(inner, tmp_path / "broken")


def test_a_directory_that_cannot_be_read(tmp_path: Path, npy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files must not be left out silently."""
    (npy / "locked").mkdir()
    scandir = os.scandir

    def refusing(path: str) -> Any:
        if path.endswith("locked"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(PermissionError, match="locked"):
        convert(npy, tmp_path / "out")


def test_names_that_are_equal_numbers_have_an_order() -> None:
    names = [Path("d/part-01.npy"), Path("d/part-1.npy"), Path("d/part-001.npy"), Path("d/part-2.npy")]
    for order in itertools.permutations(names):
        assert sorted(order, key=finding.natural) == sorted(names, key=str)


def test_a_source_without_streams() -> None:
    with pytest.raises(ValueError, match="has no streams"):
        chosen([], None, {})


@pytest.mark.parametrize(
    ("codec", "said"),
    [
        (
            "zstd_dict",
            "'zstd_dict' needs a dictionary, which is trained on a store: convert to 'raw', then loaderx recode",
        ),
        ("a=raw,b=zstd_dict", "'zstd_dict' needs a dictionary"),
        ("gzip", "expected one of raw, zstd, found 'gzip'"),
        ("a=gzip", "expected one of raw, zstd, found 'gzip'"),
        ("a=raw,b", "expected one of raw, zstd, found 'b'"),
    ],
)
def test_codecs_that_the_command_does_not_have(
    tmp_path: Path, npy: Path, codec: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["convert", str(npy), str(tmp_path / "out"), "--codec", codec])
    assert said in capsys.readouterr().err


def test_codecs_of_the_command(tmp_path: Path, npy: Path) -> None:
    for number, codec in enumerate(("raw", "zstd")):
        main(["convert", str(npy), str(tmp_path / f"out{number}"), "--codec", codec, "--quiet"])
        with DenseDataset(tmp_path / f"out{number}") as ds:
            assert ds.codec == codec
    np.savez(tmp_path / "two.npz", a=np.arange(3), b=np.arange(3))
    main(["convert", str(tmp_path / "two.npz"), str(tmp_path / "two"), "--codec", "a=raw,b=zstd", "--quiet"])
    with MSDataset(tmp_path / "two") as streams:
        assert {name: ds.codec for name, ds in streams.streams.items()} == {"a": "raw", "b": "zstd"}
