"""Several streams while somebody else writes to them: every reader sees records that belong together, and as many in each stream."""

from __future__ import annotations

import fcntl
import os
import pickle
import sys
import termios
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from identities import NAMES, fork, ids_of, make, opened_ids, part
from loaderx.dataloader import DataLoader
from loaderx.dataset import MSDataset
from support import GENEROUS, ended, swap_last, unchanged

IDS = list(range(40, 45))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make(tmp_path / "multi", IDS)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("read_only", [False, True])
def test_a_reader_between_two_streams_of_an_append(
    root: Path, monkeypatch: pytest.MonkeyPatch, name: str, read_only: bool
) -> None:
    reader = MSDataset(root, read_only=read_only)
    seen: list[list[int]] = []

    def look(checked: Any) -> int:
        assert reader.refresh() == len(reader) == len(IDS)
        seen.append(ids_of(reader))
        with MSDataset(root, read_only=read_only) as opened:
            seen.append(ids_of(opened))
            assert opened["dense"][-1][0] == opened["ragged"][-1].flat[0] == IDS[-1]
            with DataLoader(opened.streams, batch_size=5, mode=0) as loader:
                seen.append(next(loader)["dense"][:, 0].tolist())
            with pytest.raises(IndexError):
                opened["dense"][len(IDS)]
        return write(checked)

    with MSDataset(root) as ds:
        write = ds[name]._write
        monkeypatch.setattr(ds[name], "_write", look)
        ds.append(part([1, 2]))
        assert seen == [IDS] * 3
        assert reader.refresh() == len(IDS) + 2
        assert ids_of(reader) == [*IDS, 1, 2]
        assert opened_ids(root) == [*IDS, 1, 2]


def test_a_follower_of_a_writer_that_is_gone_keeps_what_all_have(root: Path) -> None:
    """Its records are right, so it goes on; whoever opens the streams then is told."""
    reader = MSDataset(root, read_only=True)
    with MSDataset(root) as ds:
        ds["dense"].append(part([1])["dense"])
    assert reader.refresh() == len(IDS)
    assert ids_of(reader) == IDS
    with pytest.raises(ValueError, match="expected streams of one length, found {'dense': 6, 'ragged': 5, 'squeezed'"):
        MSDataset(root)
    reader.close()
    with pytest.raises(ValueError, match="closed"):
        reader.refresh()


def test_readers_follow_a_writer(root: Path) -> None:
    """Two processes follow, one opens anew each time, while this one appends."""
    reading, writing = os.pipe()
    hearing, telling = os.pipe()

    def follow() -> None:
        os.close(writing)
        os.set_blocking(reading, False)
        lengths = set()
        with MSDataset(root, read_only=True) as ds:
            while not is_closed(reading):
                ds.refresh()
                ids = ids_of(ds)
                assert ids == [*IDS, *range(len(ids) - len(IDS))]
                lengths.add(len(ids))
                if len(lengths) == 2:
                    os.write(telling, b"x")
            assert ds.refresh() >= max(lengths)
            assert len(lengths) > 1

    def open_anew() -> None:
        os.close(writing)
        os.set_blocking(reading, False)
        while not is_closed(reading):
            ids = opened_ids(root)
            assert ids == [*IDS, *range(len(ids) - len(IDS))]

    children = [fork(work) for work in (follow, follow, open_anew)]
    os.close(reading)
    with MSDataset(root) as ds:
        start, count = time.monotonic(), 0
        try:
            # On a busy machine it takes a while until both have seen more.
            while (gone := time.monotonic() - start) < 1.5 or (gone < GENEROUS and pending_bytes(hearing) < 2):
                ds.append(part(range(count, count + 3)))
                count += 3
                time.sleep(0.001)
        finally:
            for descriptor in (writing, telling):
                os.close(descriptor)
        assert [ended(child) for child in children] == [0, 0, 0]


def pending_bytes(descriptor: int) -> int:
    """What was written to a pipe and not read yet."""
    return int.from_bytes(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)), sys.byteorder)


def is_closed(descriptor: int) -> bool:
    try:
        return os.read(descriptor, 1) == b""
    except BlockingIOError:
        return False


def test_threads_that_change_at_once(root: Path) -> None:
    """What one call appends lies together, at the same place in every stream."""

    def change(ds: MSDataset, start: int) -> int:
        first = ds.append(part(range(start, start + 3)))
        if start % 5 == 0:
            ds.delete([0, 2])
            ds.compact()
        ds.refresh()
        return first

    with MSDataset(root) as ds:
        with ThreadPoolExecutor(4) as pool:
            firsts = list(pool.map(lambda start: change(ds, start), range(100, 160, 3)))
        assert len(set(firsts)) > 1
        ids = ids_of(ds)
        assert len(ids) == len(set(ids)) == len(IDS) + 60 - 2 * 4
    assert opened_ids(root) == ids


def test_a_child_forked_while_a_thread_changes_is_refused_and_does_not_hang(root: Path) -> None:
    with MSDataset(root) as ds:
        ds.append(part([1]))

        def work() -> None:
            for change in (lambda: ds.append(part([2])), lambda: ds.delete(0), ds.compact):
                with pytest.raises(Exception, match="writes to it|came through a fork|another handle is deleting"):
                    change()
            for stream in ds.streams.values():
                stream._store.release()  # what it never had

        with ds._changing.lock():
            child = fork(work)
            assert ended(child) == 0
        stores = {name: stream._store for name, stream in ds.streams.items()}
        for store in stores.values():
            store.hold()
        assert ended(fork(work)) == 0
        with pytest.raises(Exception, match="another handle is deleting"):
            MSDataset(root)
        for store in stores.values():
            store.release()
        assert opened_ids(root) == [*IDS, 1]


def test_pickles_are_small_and_open_the_same_streams(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root.parent)
    with MSDataset("multi", names=["squeezed", "dense"], read_only=True, io="pread") as ds:
        data = pickle.dumps(ds)
        assert len(data) < 600
        monkeypatch.chdir("/")
        with unchanged(root), pickle.loads(data) as copy:
            assert (copy.names, copy.path) == (["squeezed", "dense"], root)
            assert copy._options == {"verify": "always", "io": "pread", "read_only": True}
            assert copy["dense"]._options == copy._options
            assert copy["dense"][:].tolist() == ds["dense"][:].tolist()
    with MSDataset(root) as ds:
        ds.delete([0])
        with pytest.raises(TypeError, match="cannot pickle this MSDataset: it has written to .*dense"):
            pickle.dumps(ds)
    with pickle.loads(pickle.dumps(MSDataset(root))) as copy:
        assert ids_of(copy) == swap_last(IDS, [0])
    (root / "squeezed" / "meta.zr").unlink()
    with pytest.raises(FileNotFoundError):
        pickle.loads(data)
