"""The frame of `convert`, with the simplest of its formats."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import loaderx.converters.finding as finding
import numpy as np
import pytest
from converting import (
    CutError,
    assert_holds,
    assert_same_stores,
    begins_everywhere,
    converted,
    cut_after,
    remove,
    resumes_everywhere,
    selects,
    small_parts,
    stored,
    writes_nothing,
)
from fixtures.stores import unpacked
from loaderx.converters import convert
from loaderx.converters.encoding import chosen
from loaderx.converters.source import ITSELF, Block, Format, Part, StreamSpec
from loaderx.dataset import DenseDataset, MSDataset, Packed
from loaderx.zrecord import CorruptStoreError, StoreLockedError, ZrecordError
from support import Array, same


@pytest.fixture
def array() -> Array:
    return np.arange(600, dtype=np.int32).reshape(200, 3)


@pytest.fixture
def npy(tmp_path: Path, array: Array) -> Path:
    """Two files of 100 records."""
    directory = tmp_path / "npy"
    directory.mkdir()
    np.save(directory / "part-2.npy", array[:100])
    np.save(directory / "part-10.npy", array[100:])
    return directory


class Numbers:
    """A source of two streams without any file."""

    def __init__(self, given: Any, *, last: int = 50, counted: bool = True) -> None:
        self.files: Sequence[Path] = []
        self.last, self._counted = last, counted
        self.streams = [
            StreamSpec("square", "dense", np.dtype(np.int64), (), "column 'x'", {"unit": "m"}),
            StreamSpec("run", "ragged", np.dtype(np.uint8)),
        ]

    @property
    def records(self) -> int | None:
        return self.last if self._counted else None

    def parts(self, start: int, names: Sequence[str]) -> Iterator[Part]:
        for first in range(start, self.last, 7):
            yield partial(self.block, first, min(first + 7, self.last), names)

    def block(self, start: int, stop: int, names: Sequence[str]) -> Block:
        runs = np.arange(start, stop)
        offsets = np.concatenate([[0], np.cumsum(runs % 5)]).astype(np.int64)
        whole: Block = {
            "square": runs**2,
            "run": Packed(np.repeat(runs, runs % 5).astype(np.uint8), offsets, None),
        }
        return {name: whole[name] for name in names}

    def close(self) -> None: ...


@pytest.fixture
def numbers(monkeypatch: pytest.MonkeyPatch) -> str:
    """A format that takes the text "numbers" in a tuple."""
    form = Format("numbers", "Numbers", lambda path: [], Numbers, takes=lambda value: value == {"numbers"})
    known = finding.formats() | {"numbers": form}
    monkeypatch.setattr(finding, "formats", lambda: known)
    return "numbers"


def test_files_in_natural_order(tmp_path: Path, npy: Path, array: Array) -> None:
    assert_holds(converted(npy, tmp_path / "out")[ITSELF], array)
    files = [npy / "part-10.npy", str(npy / "part-2.npy")]
    assert_holds(converted(files, tmp_path / "listed")[ITSELF], np.concatenate([array[100:], array[:100]]))


def test_goes_on_from_every_block(tmp_path: Path, npy: Path, monkeypatch: pytest.MonkeyPatch, numbers: str) -> None:
    small_parts(monkeypatch, 120)
    assert resumes_everywhere(npy, tmp_path) == 20
    begins_everywhere(npy)
    assert resumes_everywhere({numbers}, tmp_path) == 8
    begins_everywhere({numbers})


def test_goes_on_when_the_streams_were_left_unequal(tmp_path: Path, numbers: str) -> None:
    convert({numbers}, tmp_path / "whole")
    for stream, extra in (("square", [1, 2, 3]), ("run", [np.zeros(3, np.uint8)])):
        with pytest.raises(CutError):
            convert({numbers}, tmp_path / "out", progress=cut_after(3))
        # As a writer leaves them that is killed between two streams.
        with MSDataset(tmp_path / ".out.converting" / "new") as ds, ds[stream] as one:
            one.append(extra)
        assert convert({numbers}, tmp_path / "out").resumed == 21
        assert_same_stores(tmp_path / "whole", tmp_path / "out")
        remove(tmp_path / "out")


KILLED = """
import sys
import loaderx.converters.formats.npyfile as npy
import time
from loaderx.converters import convert
npy.PART_BYTES = 1200
convert(sys.argv[1], sys.argv[2], codec="raw", progress=lambda done, total: (print(done, flush=True), time.sleep(0.002)))
"""


@pytest.mark.timeout(300)
def test_goes_on_after_kills(tmp_path: Path) -> None:
    array = np.arange(120_000, dtype=np.int32).reshape(-1, 3)
    np.save(tmp_path / "array.npy", array)
    out, kills, rng = tmp_path / "out", 0, random.Random(0)
    arguments = [sys.executable, "-c", KILLED, str(tmp_path / "array.npy"), str(out)]
    while not out.exists():
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            child.stdout.readline()
            time.sleep(rng.random() * 0.3)
            child.kill()
            kills += 1
    assert kills > 1
    assert same(stored(out)[ITSELF].records, array)


def test_what_another_conversion_left(tmp_path: Path, npy: Path, array: Array, monkeypatch: pytest.MonkeyPatch) -> None:
    small_parts(monkeypatch, 120)

    def cut() -> None:
        with pytest.raises(CutError):
            convert(npy, tmp_path / "out", progress=cut_after(2), restart=True)

    cut()
    with pytest.raises(ValueError, match="restart=True begins anew.*encodings"):
        convert(npy, tmp_path / "out", codec="raw")
    with pytest.raises(ValueError, match="restart=True begins anew.*files"):
        convert(npy / "part-2.npy", tmp_path / "out")
    assert convert(npy, tmp_path / "out", codec="raw", dry_run=True).resumed == 0
    assert convert(npy, tmp_path / "out", codec="raw", restart=True).resumed == 0
    assert same(stored(tmp_path / "out")[ITSELF].records, array)
    remove(tmp_path / "out")
    cut()
    (tmp_path / ".out.converting" / "conversion.json").write_text("{")
    with pytest.raises(ValueError, match="can't be read"):
        convert(npy, tmp_path / "out")


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("calls", [1, 3])
def test_another_conversion_at_work_is_left_alone(
    tmp_path: Path, npy: Path, array: Array, monkeypatch: pytest.MonkeyPatch, restart: bool, calls: int
) -> None:
    """Before its first record, and after some."""
    small_parts(monkeypatch, 120)
    met: list[str] = []

    def second(done: int, total: int | None) -> None:
        if len(met) < calls:
            for codec in ("zstd", "raw"):
                with pytest.raises(
                    StoreLockedError, match=r"\.out\.converting: another conversion to .*out is at work"
                ):
                    convert(npy, tmp_path / "out", restart=restart, codec=codec)
            met.append(f"after {done}")

    assert convert(npy, tmp_path / "out", progress=second).resumed == 0
    assert len(met) == calls
    assert same(stored(tmp_path / "out")[ITSELF].records, array)
    assert sorted(path.name for path in tmp_path.iterdir() if "out" in path.name) == ["out"]


TOGETHER = """
import sys
from loaderx.converters import convert
try:
    convert(sys.argv[1], sys.argv[2])
except (FileExistsError, RuntimeError) as error:
    assert "at work" in str(error) or "something already" in str(error), error
"""


def test_conversions_begun_together(tmp_path: Path) -> None:
    np.savez(tmp_path / "two.npz", a=np.arange(1000), b=np.arange(1000.0))
    for _ in range(4):
        arguments = [sys.executable, "-c", TOGETHER, str(tmp_path / "two.npz"), str(tmp_path / "out")]
        children = [subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) for _ in range(3)]
        said = [child.communicate()[1] for child in children]
        assert [child.returncode for child in children] == [0, 0, 0], said
        assert stored(tmp_path / "out")["b"].records[999] == 999
        assert not (tmp_path / ".out.converting").exists()
        remove(tmp_path / "out")


def test_what_a_kill_leaves_before_anything_is_written(tmp_path: Path, npy: Path, array: Array) -> None:
    """The directory, its lock, half of what it is there for; or all of that of a conversion which has ended."""
    left = tmp_path / ".out.converting"
    for names in ([], ["lock"], ["lock", "conversion.json.tmp"], ["lock", "conversion.json"]):
        left.mkdir()
        for name in names:
            (left / name).write_text("{")
        assert same(converted(npy, tmp_path / "out")[ITSELF].records, array)
        remove(tmp_path / "out")


def test_what_is_at_the_destination_stays(tmp_path: Path, npy: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(FileExistsError, match="something already"):
        convert(npy, tmp_path / "out")
    with pytest.raises(FileExistsError, match="something already"):
        convert(npy, tmp_path / "out", restart=True)
    assert (tmp_path / "out").read_text() == "mine"


def test_a_source_that_changed(tmp_path: Path, npy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_parts(monkeypatch, 120)
    with pytest.raises(CutError):
        convert(npy, tmp_path / "out", progress=cut_after(2))
    np.save(npy / "part-10.npy", np.zeros((100, 3), np.int32))
    with pytest.raises(ValueError, match="files: was"):
        convert(npy, tmp_path / "out")

    def change(done: int, total: int | None) -> None:
        np.save(tmp_path / "new.npy", np.zeros((100, 3), np.int32))
        (tmp_path / "new.npy").rename(npy / "part-10.npy")

    with pytest.raises(ZrecordError, match="changed while it was converted"):
        convert(npy, tmp_path / "out", restart=True, progress=change)
    assert not (tmp_path / "out").exists()


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


def test_an_error_of_the_source(tmp_path: Path, numbers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    block = Numbers.block

    def failing(self: Numbers, start: int, stop: int, names: Sequence[str]) -> Block:
        if start == 28:
            raise OSError(5, "the disk is broken", "disk")
        return block(self, start, stop, names)

    monkeypatch.setattr(Numbers, "block", failing)
    with pytest.raises(OSError, match="the disk is broken"):
        convert({numbers}, tmp_path / "out", workers=4)
    monkeypatch.setattr(Numbers, "block", block)
    assert convert({numbers}, tmp_path / "out").resumed == 28


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


def test_what_is_refused_before_its_first_record_leaves_nothing(tmp_path: Path, numbers: str) -> None:
    def refuse(done: int, total: int | None) -> None:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        convert({numbers}, tmp_path / "out", progress=refuse)
    assert list(tmp_path.iterdir()) == []


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
