"""Full disks: an error that says so, everything that was there still there, and on it goes once there is space."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from full_disk import Disk, SmallDisk, small_disk, small_files
from loaderx._core import Store
from loaderx.utils import from_iterator, from_numpy
from loaderx.zrecord import UnsupportedCodecError, Zrecord, ZrecordError
from support import CODECS, run_python, swap_last, unchanged
from twin import Dataset, Kind, are, batch, create, dataset, files_are_exact, in_small_chunks

KINDS: list[Kind] = ["dense", "ragged"]
OPTIONS: list[dict[str, Any]] = [{"io": "mmap"}, {"io": "pread"}, {"read_only": True}]
REASON = "No space left on device|File too large"


@pytest.fixture(params=["disk", "files"])
def disk(request: pytest.FixtureRequest, tmp_path: Path, memory: Path) -> Iterator[Disk]:
    if request.param == "files":
        with small_files(memory / "small", 300 << 10) as files:
            yield files
        return
    with small_disk(tmp_path / "small", 2 << 20) as mounted:
        if mounted is None:
            pytest.skip("no file system can be mounted here")
        yield mounted


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "small", 2 << 20, inodes=60) as mounted:
        if mounted is None:
            pytest.skip("no file system can be mounted here")
        yield mounted


def done(disk: Disk, work: Callable[[], Any]) -> bool:
    """Whether `work` gets done; it ends in the error of a full disk otherwise, and nothing else."""
    try:
        work()
    except OSError as error:
        caught = error
    else:
        return True
    assert caught.errno == disk.errno
    assert re.search(REASON, str(caught))
    assert str(disk.path) in str(caught.filename)
    return False


def refused(ds: Dataset, kind: Kind) -> None:
    """After a failed write the writer refuses everything, says why, and touches nothing. What was half written takes no space."""
    assert not list(ds.path.glob("*.tmp"))
    with unchanged(ds.path):
        for write in (lambda: ds.append(batch(kind, [1])), lambda: ds.delete(0), ds.compact, ds.sync):
            with pytest.raises(ZrecordError, match=f"earlier write.*({REASON}).*reopen"):
                write()


def holds(path: Path, kind: Kind, identities: list[int]) -> None:
    """A new handle, however it reads, finds exactly these records."""
    for options in OPTIONS:
        with dataset(path, kind, **options) as ds:
            assert are(kind, ds[:], identities)


def works_again(path: Path, kind: Kind, identities: list[int]) -> None:
    """With space there is nothing that the store does not do, and nothing is left over."""
    with dataset(path, kind) as ds:
        assert are(kind, ds[:], identities)
        fresh = list(range(10**6, 10**6 + 20))
        assert ds.append(batch(kind, fresh)) == len(identities)
        removed = random.Random(1).sample(range(len(ds)), len(ds) // 3)
        ds.delete(removed)
        left = swap_last(identities + fresh, removed)
        assert are(kind, ds[:], left)
        ds.compact()
        assert are(kind, ds[:], left)
        assert ds.stats()["reclaimable"] == 0
        files_are_exact(path, len(left))
    holds(path, kind, left)


def append_until_full(ds: Dataset, kind: Kind, disk: Disk, step: int, only: int | None = None) -> list[int]:
    """Append in batches of several sizes until one fails; what was there before that one. `only`: identities that divide by it."""
    rng = random.Random(step)
    there: list[int] = []
    for _ in range(10_000):
        first = there[-1] + (only or 1) if there else 0
        more = [first + i * (only or 1) for i in range(rng.randint(1, step))]
        if not done(disk, partial(ds.append, batch(kind, more))):
            return there
        there += more
    raise AssertionError("the disk does not fill")


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kind", KINDS)
def test_appends_until_full(disk: Disk, kind: Kind, codec: str, dictionary: bytes) -> None:
    path = disk.path / "s"
    create(path, kind, codec, dictionary, level=None if codec == "raw" else 1)
    if isinstance(disk, SmallDisk):
        disk.fill(leave=400 << 10)
    else:
        disk.fill()
    with dataset(path, kind) as ds:
        there = append_until_full(ds, kind, disk, step=700)
        assert len(there) > 1000
        assert len(ds) == len(there)
        assert are(kind, ds[:], there)
        refused(ds, kind)
        holds(path, kind, there)
        assert are(kind, ds[:], there)
    holds(path, kind, there)
    disk.free()
    works_again(path, kind, there)


def test_a_table_that_has_no_space(disk: Disk) -> None:
    """Records without a byte: what does not fit is a table, or the header's sums and shapes."""
    create(disk.path / "s", "ragged", "raw")
    disk.fill(leave=200 << 10)
    with dataset(disk.path / "s", "ragged") as ds:
        there = append_until_full(ds, "ragged", disk, step=900, only=9)
        assert len(there) > 2000
        assert not list((disk.path / "s").glob("*.chunk"))
        refused(ds, "ragged")
        holds(disk.path / "s", "ragged", there)
    disk.free()
    works_again(disk.path / "s", "ragged", there)


def test_a_disk_that_holds_no_more_files(mounted: SmallDisk) -> None:
    create(mounted.path / "s", "dense", "raw")
    with in_small_chunks(mounted.path / "s", "dense", 4096) as ds:
        there = append_until_full(ds, "dense", mounted, step=30)
        assert 30 < len(list((mounted.path / "s").glob("*.chunk"))) < 60
        refused(ds, "dense")
        holds(mounted.path / "s", "dense", there)
    mounted.take_names()
    with dataset(mounted.path / "s", "dense") as ds:
        assert not done(mounted, lambda: ds.delete(0))
        assert not ds.closed
    holds(mounted.path / "s", "dense", there)
    mounted.free()
    works_again(mounted.path / "s", "dense", there)


def written(path: Path, kind: Kind, count: int, chunk_limit: int) -> list[int]:
    """A new raw store of so many records."""
    there = list(range(count))
    create(path, kind, "raw")
    with in_small_chunks(path, kind, chunk_limit) as ds:
        ds.append(batch(kind, there))
    return there


@pytest.mark.parametrize("leave", [0, 50 << 10])
@pytest.mark.parametrize("chunk_limit", [20 << 10, 1 << 30])
@pytest.mark.parametrize("kind", KINDS)
def test_delete_and_compact_on_a_full_disk(mounted: SmallDisk, kind: Kind, chunk_limit: int, leave: int) -> None:
    """A change for which there is space is done; another one is not begun."""
    path = mounted.path / "s"
    there = written(path, kind, 2000, chunk_limit)
    mounted.fill(leave)
    outcomes = []
    for count in (1, 300, 900):
        removed = random.Random(count).sample(range(len(there)), count)
        with in_small_chunks(path, kind, chunk_limit) as ds:
            outcomes.append(done(mounted, partial(ds.delete, removed)))
            if outcomes[-1]:
                there = swap_last(there, removed)
            else:
                refused(ds, kind)
            assert are(kind, ds[:], there)
        holds(path, kind, there)
        with in_small_chunks(path, kind, chunk_limit) as ds:
            outcomes.append(done(mounted, ds.compact))
            if not outcomes[-1]:
                refused(ds, kind)
            assert are(kind, ds[:], there)
        holds(path, kind, there)
    assert any(outcomes[::2]) == (leave > 0)
    mounted.free()
    works_again(path, kind, there)


@pytest.mark.parametrize("limit", [100, 9000, 25000])
@pytest.mark.parametrize("kind", KINDS)
def test_a_change_that_stops_half_way(memory: Path, kind: Kind, limit: int) -> None:
    """Files may not be written to beyond the limit, so a change is stated and can't be finished: nobody reads half of it."""
    with small_files(memory / "small", limit) as files:
        path = files.path / "s"
        there = written(path, kind, 2000, chunk_limit=4096)
        for change in ("delete", "compact"):
            files.fill()
            ds = in_small_chunks(path, kind, 4096)
            finished = done(files, ds.compact if change == "compact" else partial(ds.delete, [3, 300, 1500]))
            after = swap_last(there, [3, 300, 1500]) if change == "delete" else there
            if ds.closed:
                with pytest.raises(ZrecordError, match="unfinished"):
                    dataset(path, kind, read_only=True)
                assert not done(files, partial(dataset, path, kind))
                there = after
            else:
                there = after if finished else there
                assert are(kind, ds[:], there)
                holds(path, kind, there)
            ds.close()
            files.free()
            holds(path, kind, there)
        works_again(path, kind, there)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_killed_writer_left_on_a_full_disk(mounted: SmallDisk, kind: Kind) -> None:
    """Records that were never synced: whoever opens the store has to look at them, and to write that it did."""
    path = mounted.path / "s"
    create(path, kind, "zstd")
    code = "import sys, os, twin; from pathlib import Path\n"
    code += (
        "ds = twin.dataset(Path(sys.argv[1]), sys.argv[2]); ds.append(twin.batch(sys.argv[2], range(500))); os._exit(7)"
    )
    child = run_python(code, str(path), kind, cwd=Path(__file__).parent)
    assert child.returncode == 7, child.stderr
    mounted.fill()
    holds(path, kind, list(range(500)))
    with dataset(path, kind) as ds:
        there = list(range(500))
        there += [500] * done(mounted, lambda: ds.append(batch(kind, [500])))
        assert are(kind, ds[:], there)
    mounted.free()
    works_again(path, kind, there)


@pytest.mark.parametrize("limit", [2, 40, 200])
def test_creating_on_a_full_disk(disk: Disk, limit: int) -> None:
    """What an attempt leaves is not in the way of the next."""
    rows = np.arange(100 * 1000).reshape(100, 1000)
    attempts: list[Callable[[Path], Any]] = [
        lambda path: Zrecord(path).close(),
        lambda path: create(path, "dense", "raw"),
        lambda path: from_numpy(path, rows),
        lambda path: from_iterator(path, list(rows), np.int64),
    ]
    for number, attempt in enumerate(attempts):
        path = disk.path / str(number)
        disk.fill(leave=0 if isinstance(disk, SmallDisk) else limit)
        assert not done(disk, partial(attempt, path))
        assert not Store.exists(path)
        disk.free()
        attempt(path)
        assert Store.exists(path)
        assert not list(path.glob("*.tmp"))


def test_a_converter_that_fills_the_disk(disk: Disk) -> None:
    rows = np.random.default_rng(1).integers(0, 2**62, (100, 500))
    records = [row[: 300 + i] for i, row in enumerate(rows)]
    for convert in (partial(from_numpy, array=rows), partial(from_iterator, source=records, dtype=np.int64)):
        disk.fill(leave=200 << 10)
        assert not done(disk, partial(convert, disk.path / "s"))
        assert not (disk.path / "s").exists()
        disk.free()
        assert convert(disk.path / "s") == 100
        shutil.rmtree(disk.path / "s")


def test_a_dictionary_that_has_no_space(disk: Disk, dictionary: bytes) -> None:
    path = disk.path / "s"
    dataset(path, "dense", codec="zstd_dict", level=1).close()
    disk.fill(leave=8 << 10)
    with dataset(path, "dense") as ds:
        assert not done(disk, lambda: ds.install_dict(dictionary))
        assert not ds.has_dict()
        with pytest.raises(UnsupportedCodecError, match="without a dictionary"):
            ds.append(batch("dense", [1]))
        with pytest.raises(ZrecordError, match=f"earlier write.*({REASON}).*reopen"):
            ds.install_dict(dictionary)
    disk.free()
    with dataset(path, "dense") as ds:
        assert not ds.has_dict()
        ds.install_dict(dictionary)
        ds.append(batch("dense", range(50)))
    works_again(path, "dense", list(range(50)))


def test_shapes_that_were_never_written_take_no_space_to_read(mounted: SmallDisk) -> None:
    """The table of shapes begins with a hole, and a file system in memory fills one that is read through a map."""
    path = mounted.path / "s"
    create(path, "ragged", "raw")
    with dataset(path, "ragged") as ds:
        ds.append([np.array([i]) for i in range(3000)])
        ds.append([np.array([[3000]])])
    mounted.fill()
    code = "import sys, twin; from pathlib import Path\n"
    code += "records = twin.dataset(Path(sys.argv[1]), 'ragged', io=sys.argv[2])[:]\n"
    code += (
        "print([int(record.item()) for record in records] == list(range(3001)), records[0].shape, records[-1].shape)"
    )
    for io in ("pread", "mmap"):
        child = run_python(code, str(path), io, cwd=Path(__file__).parent)
        assert (child.returncode, child.stdout.strip()) == (0, "True (1,) (1, 1)"), child.stderr
