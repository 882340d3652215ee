"""`memory()`: what stores and batches take of a process; and that reading a store takes none of it for good."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import proc
import pytest
import transforms
from loaderx.dataloader import DataLoader
from loaderx.dataset import DenseDataset, MSDataset, RaggedDataset
from loaderx.utils import from_iterator, from_numpy
from support import run_python, same

HERE = Path(__file__).parent
PAGE = 4096
ROWS = np.random.default_rng(0).integers(0, 256, (2000, 4000), np.uint8)
ROWS[:, :2] = np.arange(len(ROWS), dtype=np.uint16)[:, None].view(np.uint8)  # its number


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A raw store, one of zstd, and a ragged one with shapes, of 8 MB each."""
    root = tmp_path_factory.mktemp("memory")
    from_numpy(root / "raw", ROWS, codec="raw")
    from_numpy(root / "zstd", ROWS, codec="zstd")
    from_iterator(root / "ragged", (row.reshape(2, -1)[:, : 1 + i] for i, row in enumerate(ROWS)), np.uint8, "raw")
    return root


def sizes(store: Path) -> int:
    return sum(file.stat().st_size for file in store.iterdir())


def opened(path: Path, **options: Any) -> Any:
    kind = RaggedDataset if path.name == "ragged" else DenseDataset
    return kind(path, **options)


@proc.needs_proc
@pytest.mark.parametrize("name", ["raw", "zstd", "ragged"])
def test_what_is_mapped_and_resident(folder: Path, name: str) -> None:
    """Beside a twin that asks the system by the names of files."""
    with opened(folder / name) as ds:
        assert (ds.memory()["mapped"], ds.memory()["resident"]) == (0, 0)
        ds[:3]
        some = ds.memory()
        assert 0 < some["resident"] == proc.resident_below(folder / name) < some["mapped"]
        ds[:]
        whole = ds.memory()
        assert ds.stats()["chunk_bytes"] <= whole["mapped"] <= sizes(folder / name)
        assert whole["resident"] == proc.resident_below(folder / name)
        assert whole["resident"] >= ds.stats()["chunk_bytes"] - PAGE
        assert ds._store.memory() == ds.memory()
    assert proc.resident_below(folder / name) == 0
    with pytest.raises(ValueError, match="closed"):
        ds.memory()
    with pytest.raises(ValueError, match="closed"):
        ds.drop_resident()


def test_positional_reads_map_nothing(folder: Path) -> None:
    with opened(folder / "raw", io="pread") as ds:
        assert same(ds[:], ROWS)
        assert ds.memory()["mapped"] == 0
        assert ds.memory()["resident"] in (0, None)
        ds.drop_resident()
        assert same(ds[5], ROWS[5])


@proc.needs_proc
@pytest.mark.parametrize("name", ["raw", "zstd", "ragged"])
def test_resident_pages_are_dropped(folder: Path, name: str) -> None:
    with opened(folder / name) as ds:
        ds[:1]  # one thread makes the map, not all of them at once, of whose maps one would stay
        whole = ds[:]
        before = proc.shown()
        ds.drop_resident()
        assert proc.shown() < before - ds.stats()["live_bytes"] // 2
        assert (ds.memory()["mapped"], proc.resident_below(folder / name)) == (0, 0)
        again = ds[:]
        assert all(same(a, b) for a, b in zip(again, whole, strict=True))
        assert ds.memory()["mapped"] > 0


@proc.needs_proc
def test_views_stay_when_pages_are_dropped(folder: Path) -> None:
    with opened(folder / "raw") as ds:
        view = ds.view(0, 2000)
        ds.drop_resident()
        assert same(view, ROWS)
        assert ds.memory()["mapped"] == 0, "a view's map is the view's"
        del view
    assert proc.resident_below(folder / "raw") == 0


def test_dropped_while_others_read(folder: Path) -> None:
    with opened(folder / "raw") as ds, DataLoader({"x": ds}, 3, 64) as loader:
        for batch in loader.take(200):
            ds.drop_resident()
            numbers = np.ascontiguousarray(batch["x"][:, :2]).view(np.uint16)[:, 0]
            assert same(batch["x"], ROWS[numbers])


@proc.needs_proc
def test_streams_are_added_up(tmp_path: Path) -> None:
    for name in "ab":
        from_numpy(tmp_path / name, ROWS[:500], codec="raw")
    with MSDataset(tmp_path) as ds:
        for stream in ds.streams.values():
            stream[:]
        both, streams = ds.memory(), [stream.memory() for stream in ds.streams.values()]
        assert both["mapped"] == sum(one["mapped"] for one in streams) > 0
        assert both["resident"] == sum(one["resident"] or 0 for one in streams) > 0
        assert both["resident"] == proc.resident_below(tmp_path)
        ds.drop_resident()
        assert ds.memory()["mapped"] == 0


def test_memory_of_batches(folder: Path) -> None:
    """In a process of its own: the figures are those of all batches."""
    code = """
import sys, time
import numpy as np
from loaderx import DenseDataset
with DenseDataset(sys.argv[1]) as ds:
    def found():
        memory = ds.memory()
        return memory["batches"], memory["kept"]

    def used():
        first = ds[:1000]
        size = found()[0]
        view = first[5:7]
        second = ds[:1000]
        yield found(), (2 * size, 0)
        begun = time.monotonic()
        del first, second
        yield found(), (size, size)
        del view
        yield found(), (0, 2 * size)
        third = ds[:1000]
        yield found(), (size, size)
        del third
        assert 4_000_000 <= size <= 4_000_000 + (2 << 20), size
        # Memory is kept for two seconds. A busy machine may take as long for a line.
        yield time.monotonic() - begun < 1.5, True

    assert found() == (0, 0), found()
    deadline = time.monotonic() + 60
    seen = [(1, 0)]
    while any(got != want for got, want in seen):
        assert time.monotonic() < deadline, seen
        while found() != (0, 0):
            assert time.monotonic() < deadline, found()
            time.sleep(0.05)
        seen = list(used())
    while found() != (0, 0):
        assert time.monotonic() < deadline, found()
        time.sleep(0.05)
"""
    done = run_python(code, str(folder / "raw"), timeout=100)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(sys.platform == "win32", reason="descriptors over sockets")
def test_shared_memory_of_a_loader(folder: Path, processes: Any) -> None:
    with opened(folder / "raw", read_only=True) as ds:
        with DataLoader({"x": ds}, 2, 64) as loader:
            next(loader)
            assert loader.stats().shared_bytes == 0
        with DataLoader({"x": ds}, 2, 64, transform=transforms.plain, worker_type="process") as loader:
            assert loader.stats().shared_bytes == 0
            for _ in range(20):
                batch = next(loader)
            assert batch["x"].nbytes <= loader.stats().shared_bytes <= 2 * 40 * (batch["x"].nbytes + PAGE)


LARGE = 256 << 20

SCAN = """
import sys
import numpy as np
import proc
from loaderx import DataLoader, DenseDataset

path, how = sys.argv[1:]
with DenseDataset(path) as ds:
    batches = len(ds) // 256

    def scan():
        if how == "slices":
            for start in range(0, len(ds), 256):
                yield ds[start : start + 256]
        elif how == "random":
            rng = np.random.default_rng(0)
            for _ in range(batches):
                yield ds[rng.integers(0, len(ds), 256)]
        elif how == "records":
            for number, record in enumerate(ds):
                if number % 256 == 0:
                    yield record
        else:
            with DataLoader({"x": ds}, num_workers=2, batch_size=256) as loader:
                yield from loader.take(batches)

    anonymous = [proc.status("RssAnon") for batch in scan()]
    memory = ds.memory()
    assert memory["resident"] > ds.stats()["live_bytes"] // 2, memory
    assert proc.shown() > memory["resident"]
    warm = max(anonymous[: batches // 8])
    print(max(anonymous) - warm)
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of 256 MiB."""
    path = tmp_path_factory.mktemp("memory") / "large"
    block = np.random.default_rng(0).integers(0, 256, (4096, 4096), np.uint8)
    with DenseDataset(path, np.uint8, (4096,), "raw") as ds:
        for _ in range(LARGE // block.nbytes):
            ds.append(block)
    return path


@proc.needs_proc
@pytest.mark.parametrize("how", ["slices", "random", "records", "loader"])
def test_anonymous_memory_is_flat_in_a_scan(large: Path, how: str) -> None:
    """What RSS grows by is file-backed."""
    done = run_python(SCAN, str(large), how, timeout=110, cwd=HERE)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) <= LARGE // 16
