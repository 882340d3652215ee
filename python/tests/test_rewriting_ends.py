"""What is left when rewriting a store ends early: the source as it was, and nothing else; after a kill a directory that says so."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from full_disk import small_disk, small_files
from loaderx import (
    CorruptStoreError,
    DenseDataset,
    MSDataset,
    RaggedDataset,
    Zrecord,
    ZrecordError,
    recode,
    select,
    split,
    verify,
)
from loaderx.copying import block, writing
from loaderx.utils import from_iterator, from_numpy
from support import Array, soon, unchanged

SLOW = "import loaderx, sys, time; loaderx.recode(*sys.argv[1:], 'raw', progress=lambda done, total: time.sleep(60 * (done > 0)))"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    from_numpy(tmp_path / "src", np.arange(40_000).reshape(-1, 4))
    return tmp_path / "src"


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_killed_process_leaves_the_source(source: Path, tmp_path: Path) -> None:
    with unchanged(source), subprocess.Popen([sys.executable, "-c", SLOW, source, tmp_path / "dst"]) as process:
        assert soon(lambda: list(tmp_path.glob(".dst.unfinished-*/new/0.chunk")) or process.poll() is not None)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    left = [name for name in names(tmp_path) if name != "src"]
    assert len(left) == 1
    assert left[0].startswith(".dst.unfinished-")
    recode(source, tmp_path / "dst", "raw")
    assert np.array_equal(DenseDataset(tmp_path / "dst")[:], DenseDataset(source)[:])


def test_an_interrupt_leaves_nothing_and_is_prompt(source: Path, tmp_path: Path) -> None:
    code = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); {SLOW}"
    with subprocess.Popen([sys.executable, "-c", code, source, tmp_path / "dst"], stderr=subprocess.PIPE) as process:
        assert soon(lambda: list(tmp_path.glob(".dst.unfinished-*/new/0.chunk")) or process.poll() is not None)
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        begun = time.monotonic()
        process.communicate()
        assert time.monotonic() - begun < 30
    assert process.returncode == -signal.SIGINT
    assert names(tmp_path) == ["src"]


def test_a_failure_takes_the_parents_that_were_made_with_it(source: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for dst in ("there/a/b/dst", "c/dst", "d/.."):
        with unchanged(source), pytest.raises((ValueError, OSError)):
            recode(source, tmp_path / dst, level=99 if dst.endswith("dst") else None)
    assert names(tmp_path) == ["src", "there"]
    assert names(tmp_path / "there") == []

    def fill(done: int, total: int) -> None:
        (tmp_path / "e" / "another").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        recode(source, tmp_path / "e" / "f" / "dst", progress=fill)
    assert names(tmp_path / "e") == ["another"]


@pytest.mark.parametrize("name", ["x" * 255, "é" * 127, "a b\n'c"])
def test_every_name_that_the_file_system_takes(source: Path, tmp_path: Path, name: str) -> None:
    recode(source, tmp_path / name)
    assert names(tmp_path) == sorted(["src", name])
    with pytest.raises(FileExistsError):
        recode(source, tmp_path / name)


@pytest.mark.parametrize("kind", ["store", "file", "link"])
def test_what_somebody_else_puts_there_meanwhile_stays(source: Path, tmp_path: Path, kind: str) -> None:
    dst = tmp_path / "dst"

    def put(done: int, total: int) -> None:
        if done < total or os.path.lexists(dst):
            return
        if kind == "store":
            from_numpy(dst, np.arange(3))
        elif kind == "file":
            dst.write_text("mine")
        else:
            dst.symlink_to("nothing")

    with pytest.raises(FileExistsError, match="there is something already.*dst'$"):
        recode(source, dst, progress=put)
    assert names(tmp_path) == ["dst", "src"]
    if kind == "store":
        assert DenseDataset(dst)[:].tolist() == [0, 1, 2]
    elif kind == "file":
        assert dst.read_text() == "mine"
    else:
        assert dst.readlink() == Path("nothing")


def test_a_name_that_is_too_long_is_refused_before_anything_is_written(source: Path, tmp_path: Path) -> None:
    told: list[int] = []
    with pytest.raises(OSError, match="too long"):
        recode(source, tmp_path / ("x" * 256), progress=lambda done, total: told.append(done))
    assert told == []
    assert names(tmp_path) == ["src"]


@pytest.mark.parametrize("at", [0.0, 0.3, 0.5, 0.8, 1.0])
def test_an_error_of_the_callers(source: Path, tmp_path: Path, at: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block, "BLOCK_BYTES", 10_000)

    def stop(done: int, total: int) -> None:
        if done >= at * total:
            raise KeyboardInterrupt

    with unchanged(source), pytest.raises(KeyboardInterrupt):
        split(source, tmp_path / "dst", {"a": 0.5, "b": 0.5}, progress=stop)
    assert names(tmp_path) == ["src"]
    with DenseDataset(source) as dataset:
        dataset.delete(0)  # nobody has it open any more


def test_what_was_written_wrongly_is_noticed(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append = writing.append

    def wrong(store: Any, block: Any, uniform: bool) -> None:
        block.values[5] ^= 1
        append(store, block, uniform)

    monkeypatch.setattr(writing, "append", wrong)
    with pytest.raises(CorruptStoreError, match="not what was to be copied"):
        recode(source, tmp_path / "dst")
    assert names(tmp_path) == ["src"]
    recode(source, tmp_path / "dst", verify=False)
    assert not np.array_equal(DenseDataset(tmp_path / "dst")[:], DenseDataset(source)[:])


def test_records_that_do_not_fit_their_schema(tmp_path: Path) -> None:
    """A foreign writer may have stored anything; its checksums are right then."""
    three = np.arange(3, dtype=np.int16)
    for name, shape in (("product", (2, 5)), ("rank", None)):
        from_iterator(tmp_path / name, [three[None], three], np.int16)
        row = np.zeros((1, 8), np.uint32)
        row[0, 0] = 3 if shape else 9
        row[0, 1:3] = shape or 1
        with Zrecord(tmp_path / name) as store:
            store.append_list([three], row)
    from_iterator(tmp_path / "length", [three[:2], three[:2], three], np.int16)
    with Zrecord(tmp_path / "length") as store:
        store.append(b"abc", [0])
    from_numpy(tmp_path / "dense", three)
    with Zrecord(tmp_path / "dense") as store:
        store.append(b"abc", [0])
    for name, record, reason in (
        ("product", 2, "its shape does not fit its 3 items"),
        ("rank", 2, "its shape does not fit its 3 items"),
        ("length", 3, "expected a multiple of the 2 bytes of '<i2', found 3 bytes"),
        ("dense", 3, "its length is not the 2 bytes of the item shape"),
    ):
        with pytest.raises(ZrecordError, match=f"record {record}: {reason}"):
            recode(tmp_path / name, tmp_path / "dst", verify=False)
        select(tmp_path / name, tmp_path / f"sound-{name}", slice(record))
        assert not (tmp_path / "dst").exists()


@pytest.mark.parametrize("kind", ["disk", "files"])
def test_a_full_disk(tmp_path: Path, kind: str) -> None:
    rows = np.random.default_rng(0).integers(0, 256, (3000, 1000), np.uint8)
    from_numpy(tmp_path / "src", rows, codec="raw")
    make: Any = small_disk if kind == "disk" else small_files
    with make(tmp_path / "small", 2 << 20) as disk:
        if disk is None:
            pytest.skip("no file system can be mounted here")
        if kind == "files":
            disk.fill()
        with pytest.raises(OSError, match=re.escape(os.strerror(disk.errno))) as error:
            recode(tmp_path / "src", disk.path / "dst")
        disk.free()
        assert error.value.errno == disk.errno
        assert names(disk.path) == []
    assert verify(tmp_path / "src").ok


def test_blocks_of_many_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records larger than a block, and blocks of several stores and streams."""
    monkeypatch.setattr(block, "BLOCK_BYTES", 100)
    for name in ("loaderx.copying.snapshot", "loaderx.rewriting.picked"):
        monkeypatch.setattr(f"{name}.BLOCK_RECORDS", 7)
    sizes = [0, 3, 500, 1, 99, 100, 101, 0] * 9
    records: list[Array] = [np.full(size, n, np.uint8) for n, size in enumerate(sizes)]
    from_iterator(tmp_path / "src" / "a", records, np.uint8)
    from_iterator(tmp_path / "src" / "b", [record.reshape(-1, 1) for record in records], np.uint8, codec="raw")
    split(tmp_path / "src", tmp_path / "dst", {"x": 0.7, "y": 0.3}, shuffle=False)
    cut = round(0.7 * len(sizes))
    for name, want in (("x", records[:cut]), ("y", records[cut:])):
        with MSDataset(tmp_path / "dst" / name) as streams:
            assert all(np.array_equal(got, one) for got, one in zip(streams["a"][:], want, strict=True))
            for got, one in zip(streams["b"][:], want, strict=True):
                assert got.shape == (one.size, 1)
                assert np.array_equal(got[:, 0], one)


def test_a_record_of_more_than_a_block(tmp_path: Path) -> None:
    large = np.arange(5 << 20, dtype=np.uint32)
    from_iterator(tmp_path / "src", [large, large[:3]], np.uint32, codec="raw")
    recode(tmp_path / "src", tmp_path / "dst", "zstd")
    with RaggedDataset(tmp_path / "dst") as dataset:
        assert np.array_equal(dataset[0], large)
        assert len(dataset) == 2


def test_slow_writes_get_smaller_and_quick_ones_larger() -> None:
    sizes = [0, 1 << 16, 0, 1 << 21, 3, 1 << 18] * 4
    offsets = np.cumsum([0, *sizes])
    rows = np.arange(len(sizes) * 8, dtype=np.uint32).reshape(-1, 8)
    whole = block.Block(5, np.arange(offsets[-1], dtype=np.uint32).astype(np.uint8), offsets, rows)
    for seconds, limit in ((1.0, block.FEWEST_BYTES), (0.0, block.BLOCK_BYTES), (0.2, block.FIRST_BYTES)):
        pace = block.Pace()
        parts: list[block.Block] = []
        for part in whole.parts(pace):
            assert len(part) == 1 or part.values.size <= pace.size
            assert part.first == 5 + sum(map(len, parts))
            parts.append(part)
            pace.took(seconds)
        assert pace.size == limit
        assert np.array_equal(np.concatenate([part.values for part in parts]), whole.values)
        assert np.array_equal(np.concatenate([np.diff(part.offsets) for part in parts]), sizes)
        assert np.array_equal(np.concatenate([part.rows for part in parts if part.rows is not None]), rows)
        assert all(part.offsets[0] == 0 for part in parts)
