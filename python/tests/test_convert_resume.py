"""Conversions that are cut: what goes on, and what must not."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from converting import (
    CutError,
    assert_same_stores,
    begins_everywhere,
    converted,
    cut_after,
    cut_early,
    never_goes_on,
    remove,
    resumes_everywhere,
    small_parts,
    stored,
)
from converting_numbers import Numbers, known_numbers, numbered, two_files
from loaderx.converters import convert
from loaderx.converters.source import ITSELF, Block
from loaderx.dataset import MSDataset
from loaderx.zrecord import StoreLockedError, ZrecordError
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


def test_what_is_refused_before_its_first_record_leaves_nothing(tmp_path: Path, numbers: str) -> None:
    def refuse(done: int, total: int | None) -> None:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        convert({numbers}, tmp_path / "out", progress=refuse)
    assert list(tmp_path.iterdir()) == []


def test_a_source_of_which_nothing_is_known(tmp_path: Path, numbers: str) -> None:
    never_goes_on(lambda which: {numbers}, tmp_path, known=False)


def test_a_source_in_memory_that_changes(tmp_path: Path, numbers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an open dataset does whose files others write."""
    said = iter(["then", "now"])
    monkeypatch.setattr(
        Numbers, "identity", property(lambda self: lambda: next(said), lambda self, value: None), raising=False
    )
    with pytest.raises(ZrecordError, match="the source was changed while it was converted"):
        convert({numbers}, tmp_path / "out")


def test_long_names(tmp_path: Path, npy: Path, array: Array, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as a file system takes them; those that begin alike are not taken for one another."""
    small_parts(monkeypatch, 120)
    names = ["a" * 254 + last for last in "xy"] + ["ä" * 127]
    for name in names:
        cut_early(npy, tmp_path / name, codec="raw")
    for name in names:
        assert convert(npy, tmp_path / name, codec="raw").resumed == 20
        assert same(stored(tmp_path / name)[ITSELF].records, array)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*names, "npy"])
    with pytest.raises(OSError, match="too long"):
        convert(npy, tmp_path / ("a" * 256))


def test_parents_go_with_what_they_were_made_for(
    tmp_path: Path, npy: Path, numbers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But neither those that were there, nor those that hold what a cut has left."""
    (tmp_path / "there").mkdir()
    with pytest.raises(CutError):
        convert(npy, tmp_path / "there/new/newer/out", progress=cut_after(0))
    assert list((tmp_path / "there").iterdir()) == []
    small_parts(monkeypatch, 120)
    with pytest.raises(CutError):
        convert(npy, tmp_path / "there/new/newer/out", progress=cut_after(2))
    with pytest.raises(ValueError, match="restart=True begins anew"):
        convert(npy, tmp_path / "there/new/newer/out", codec="raw")
    assert convert(npy, tmp_path / "there/new/newer/out").resumed == 20
