"""Reading where nothing may be written: everything that reads works, everything that writes is refused, and nothing changes."""

from __future__ import annotations

import errno
import itertools
import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from multiprocessing import connection, popen_fork, queues, synchronize
from pathlib import Path
from typing import Any, NamedTuple

import msgpack
import numpy as np
import pytest
from fuse import mounted
from loaderx.dataloader import DataLoader
from loaderx.dataset import DenseDataset, MSDataset, RaggedDataset
from loaderx.sampler import Sampler
from loaderx.utils import from_iterator, from_numpy
from loaderx.zrecord import CorruptRecordError, CorruptStoreError, Zrecord, ZrecordError
from places import NOBODY, become_nobody, each_path, elsewhere, mount_read_only, state, stay
from shims import KILLED_AT_RENAME, LOCKS_OF_NFS, NO_LOCKS, compiled
from support import CODECS, Array, all_same, fork, images, run_python, same, swap_last, unchanged

# A child that has become another user can perhaps not import from where the interpreter lies.
PRELOADED = (connection, popen_fork, queues, synchronize)

ROWS = images(40)
RECORDS = [np.arange(i * i % 37, dtype=np.int32).reshape((-1,) if i % 2 else (1, -1)) for i in range(40)]
BYTES = [bytes([i]) * (i % 7) for i in range(40)]
STORES = [*(f"{kind}-{codec}" for kind in ("dense", "ragged") for codec in CODECS), "old-dense", "old-ragged"]
OPTIONS: list[dict[str, Any]] = [
    {"io": io, "read_only": read_only} for io in ("auto", "mmap", "pread") for read_only in (False, True)
]


class Place(NamedTuple):
    """A directory that holds stores, and how a process gets to where it can't write to them."""

    root: Path
    enter: Callable[[], None]
    #: What a writer is told there.
    errno: int


def append_and_die(path: Path, rows: Array) -> None:
    """A writer that is killed after an append, before any sync."""
    child = fork()
    if child == 0:
        dataset = DenseDataset(path)  # kept: the end of the last reference syncs
        try:
            dataset.append(rows)
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def as_plain(path: Path, shapes: list[tuple[int, ...]] | None) -> None:
    """Turn a closed store into what loaderx 1.x writes: without our files, with a plain header, shapes in the schema."""
    for name in ("sync.zr", "lock.zr", "0.sum", "0.shape"):
        (path / name).unlink(missing_ok=True)
    with (path / "meta.zr").open("r+b") as file:
        file.seek(22)
        file.write(bytes(10))
    if shapes is not None:
        schema = msgpack.unpackb((path / "schema.msgpack").read_bytes())
        (path / "schema.msgpack").write_bytes(msgpack.packb(schema | {"shapes": shapes}))


def delete_and_die(path: Path, shim: Path, index: int) -> None:
    """A writer that is killed once it has stated what it will delete, and before it does."""
    code = f"from loaderx.dataset import DenseDataset; DenseDataset({str(path)!r}).delete({index})"
    env = os.environ | {"LD_PRELOAD": str(shim), "KILLED_AT_RENAME": "intent.zr"}
    died = subprocess.run([sys.executable, "-c", code], env=env, check=False)
    assert died.returncode == -signal.SIGKILL


def fill(root: Path, dictionary: bytes) -> None:
    for codec in CODECS:
        trained = dictionary if codec == "zstd_dict" else None
        from_numpy(root / f"dense-{codec}", ROWS, codec, trained)
        from_iterator(root / f"ragged-{codec}", RECORDS, np.int32, codec, trained)
    from_numpy(root / "old-dense", ROWS, "zstd")
    as_plain(root / "old-dense", None)
    from_iterator(root / "old-ragged", RECORDS, np.int32, "raw")
    as_plain(root / "old-ragged", [record.shape for record in RECORDS])
    with Zrecord(root / "bytes", "zstd") as store:
        store.append(b"".join(BYTES), np.cumsum([0, *map(len, BYTES)])[:-1])
    from_numpy(root / "streams" / "image", ROWS)
    from_numpy(root / "streams" / "index", np.arange(40))
    from_iterator(root / "streams" / "token", RECORDS, np.int32)
    from_numpy(root / "tail", ROWS[:30])
    append_and_die(root / "tail", ROWS[30:])
    shutil.copytree(root / "tail", root / "torn")
    damage_record(root / "torn", 36)


def damage_record(path: Path, index: int) -> None:
    offset, stored, _, chunk = np.fromfile(path / "0.loc", "<u4").reshape(-1, 4)[index]
    with (path / f"{chunk}.chunk").open("r+b") as file:
        file.seek(int(offset) + int(stored) // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 0x55]))


def give_away(path: Path, owner: int) -> None:
    try:
        os.chown(path, owner, owner)
    except PermissionError as error:
        pytest.skip(f"this machine's root may not give files away ({error})")


def lock_up(root: Path, directory_mode: int, file_mode: int, owner: int | None) -> None:
    for path in each_path(root):
        if owner is not None:
            give_away(path, owner)
        path.chmod(directory_mode if path.is_dir() else file_mode)


@pytest.fixture(scope="module", params=["no permission", "no permission for files", "another user", "read-only mount"])
def place(request: pytest.FixtureRequest, dictionary: bytes) -> Iterator[Place]:
    """Not below pytest's own directory, which other users can't enter."""
    root = Path(tempfile.mkdtemp(prefix="loaderx-read-only-"))
    is_root = os.geteuid() == 0
    try:
        fill(root, dictionary)
        if request.param == "no permission":
            # Nothing binds root, so its part is played by an owner who took the permission from himself.
            lock_up(root, 0o555, 0o444, NOBODY if is_root else None)
            yield Place(root, become_nobody if is_root else stay, errno.EACCES)
        elif request.param == "no permission for files":
            lock_up(root, 0o755, 0o444, NOBODY if is_root else None)
            root.chmod(0o555)
            yield Place(root, become_nobody if is_root else stay, errno.EACCES)
        elif request.param == "another user":
            lock_up(root, 0o755, 0o644, None)
            yield Place(root, become_nobody, errno.EACCES)
        else:
            yield Place(root, lambda: mount_read_only(root), errno.EROFS)
    finally:
        if not is_root:
            lock_up(root, 0o755, 0o644, None)
        shutil.rmtree(root)


def check(place: Place, work: Callable[[], None]) -> None:
    """Run `work` in the place, and see that nothing there has changed."""
    before = state(place.root)
    elsewhere(place.enter, work)
    assert state(place.root) == before


# -- reading


def opened(path: Path, options: dict[str, Any]) -> tuple[DenseDataset | RaggedDataset, Any]:
    """A dataset, and the records that it must hold."""
    if "dense" in path.name:
        return DenseDataset(path, **options), ROWS
    return RaggedDataset(path, **options), RECORDS


def read_all(ds: DenseDataset | RaggedDataset) -> list[Array]:
    return [np.array(record) for record in ds[:]]


def examine(ds: DenseDataset | RaggedDataset, want: Any) -> None:
    assert len(ds) == ds.refresh() == len(want) == ds.stats()["records"]
    assert all_same(ds[:], want)
    assert all_same(list(ds), want)
    order = np.random.default_rng(1).integers(-len(want), len(want), 200)
    assert all_same(ds[order], [want[i] for i in order])
    assert same(ds[-1], want[-1])
    assert ds.lengths(slice(None)).tolist() == [record.nbytes for record in want]
    assert ds.has_dict() == (ds.codec == "zstd_dict")
    assert f"len={len(want)}" in repr(ds)
    with pickle.loads(pickle.dumps(ds)) as copy:
        assert all_same(copy[:], want)
    ds.sync()


def start_methods() -> list[str]:
    """Those that work here: "spawn" where the present user may run the interpreter, and never "forkserver", since this is a forked
    child itself and the server that its parent may have started is no child of it.
    """
    return ["fork", "spawn"] if os.access(Path(sys.executable).resolve(), os.R_OK | os.X_OK) else ["fork"]


@pytest.mark.parametrize("name", STORES)
def test_datasets_read(place: Place, name: str) -> None:
    def work() -> None:
        for options in OPTIONS:
            ds, want = opened(place.root / name, options)
            with ds:
                examine(ds, want)

    check(place, work)


@pytest.mark.parametrize("name", ["dense-zstd_dict", "ragged-raw"])
def test_workers_reopen(place: Place, name: str) -> None:
    def work() -> None:
        warnings.simplefilter("ignore", DeprecationWarning)  # fork with threads
        for method, read_only in zip(start_methods(), (False, True), strict=False):
            ds, want = opened(place.root / name, {"read_only": read_only})
            with ds, ProcessPoolExecutor(1, multiprocessing.get_context(method)) as pool:
                assert all_same(pool.submit(read_all, ds).result(60), want)

    check(place, work)


def test_records_read(place: Place) -> None:
    def work() -> None:
        for options in OPTIONS:
            with Zrecord(place.root / "bytes", **options) as store:
                idxs = np.arange(40)[::-1]
                lengths = store.lengths(idxs).astype(np.uint64)
                assert lengths.tolist() == [len(BYTES[i]) for i in idxs]
                into = np.zeros(int(lengths.sum()), np.uint8)
                store.gather(idxs, into, np.cumsum(lengths) - lengths)
                assert into.tobytes() == b"".join(BYTES[i] for i in idxs)
                assert store.stats()["records"] == len(store) == len(pickle.loads(pickle.dumps(store))) == 40

    check(place, work)


def test_streams_and_loader_read(place: Place) -> None:
    def work() -> None:
        for options in OPTIONS:
            with MSDataset(place.root / "streams", **options) as ds, DataLoader(ds, batch_size=7) as loader:
                sampler = Sampler(40, 7, Sampler.Mode.CYCLIC, loader.seed)
                assert ds.refresh() == len(ds) == 40
                for batch, idxs in zip(itertools.islice(loader, 20), sampler, strict=False):
                    assert same(batch["index"], idxs.astype(np.int64))
                    assert same(batch["image"], ROWS[idxs])
                    assert all_same(batch["token"], [RECORDS[i] for i in idxs])
                    assert batch["image"].flags.writeable

    check(place, work)


# -- writing


def refused(place: Place, options: dict[str, Any], write: Callable[[], Any]) -> None:
    """The operating system's refusal, or ours before it is asked; it names the store or a file in it."""
    expected = errno.EACCES if options["read_only"] else place.errno
    with pytest.raises(OSError, match=str(place.root)) as caught:
        write()
    assert caught.value.errno == expected
    assert isinstance(caught.value, PermissionError) == (expected == errno.EACCES)


@pytest.mark.parametrize("name", STORES)
def test_datasets_refuse_to_write(place: Place, name: str, dictionary: bytes) -> None:
    def work() -> None:
        for options in OPTIONS:
            ds, want = opened(place.root / name, options)
            with ds:
                for _ in range(2):
                    refused(place, options, partial(ds.append, want[:2]))
                    refused(place, options, partial(ds.delete, [0, 3]))
                    refused(place, options, ds.compact)
                    if ds.codec == "zstd_dict":
                        refused(place, options, partial(ds.install_dict, dictionary))
                ds.delete([])
                assert not ds._store.has_written
                examine(ds, want)

    check(place, work)


def test_streams_refuse_to_write(place: Place) -> None:
    def work() -> None:
        for options in OPTIONS:
            with MSDataset(place.root / "streams", **options) as ds:
                batch = {"image": ROWS[:1], "index": np.arange(1), "token": RECORDS[:1]}
                for write in (partial(ds.append, batch), partial(ds.delete, 0), ds.compact):
                    refused(place, options, write)
                assert len(ds) == 40
                assert same(ds["image"][:], ROWS)

    check(place, work)


def test_nothing_is_created(place: Place) -> None:
    def work() -> None:
        new = place.root / "new"
        for create in (
            lambda: Zrecord(new),
            lambda: Zrecord(place.root / "deeper" / "new"),
            lambda: DenseDataset(new, dtype=np.int8, item_shape=()),
            lambda: RaggedDataset(new, dtype=np.int8),
            lambda: from_numpy(new, ROWS),
            lambda: from_iterator(new, RECORDS, np.int32),
        ):
            refused(place, {"read_only": False}, create)

    check(place, work)


# -- what a killed writer left


@pytest.mark.parametrize(("name", "length"), [("tail", 40), ("torn", 36)])
def test_an_unsynced_tail_is_read_as_far_as_it_is_whole(place: Place, name: str, length: int) -> None:
    def work() -> None:
        for options in OPTIONS:
            with DenseDataset(place.root / name, **options) as ds:
                examine(ds, ROWS[:length])
                refused(place, options, partial(ds.append, ROWS[:1]))
                examine(ds, ROWS[:length])

    check(place, work)


def test_an_unfinished_delete_is_refused(place: Place, tmp_path: Path) -> None:
    shim = compiled(KILLED_AT_RENAME, tmp_path, "killed")
    root = Path(tempfile.mkdtemp(prefix="loaderx-unfinished-"))
    try:
        from_numpy(root / "store", ROWS)
        delete_and_die(root / "store", shim, 3)
        is_root = os.geteuid() == 0
        here = place._replace(root=root, enter=place.enter if is_root else stay)
        if place.errno == errno.EROFS:
            here = here._replace(enter=lambda: mount_read_only(root))
        else:
            lock_up(root, 0o555, 0o444, NOBODY if is_root else None)

        def work() -> None:
            for options in OPTIONS:
                with pytest.raises(
                    ZrecordError, match="unfinished delete or compact: open it once with write permission"
                ):
                    DenseDataset(root / "store", **options)

        check(here, work)
        lock_up(root, 0o755, 0o644, None)
        with DenseDataset(root / "store") as ds:
            assert all_same(ds[:], swap_last(list(ROWS), [3]))
    finally:
        shutil.rmtree(root)


# -- file systems without locks, and in user space


WITHOUT_LOCKS = """
import sys
from pathlib import Path
from test_read_only import OPTIONS, ROWS, examine, opened
from loaderx.dataset import DenseDataset

def refused(write, path, number):
    try:
        write()
    except OSError as error:
        assert error.errno == number, error
        assert "could not lock for writing" in str(error) and str(path) in str(error), error
    else:
        raise SystemExit(f"{path}: a write was not refused")

root, number = Path(sys.argv[1]), int(sys.argv[2])
for name in ("dense-zstd", "ragged-zstd_dict", "tail"):
    for options in OPTIONS:
        ds, want = opened(root / name, options) if name != "tail" else (DenseDataset(root / name, **options), ROWS)
        examine(ds, want)
        if not options["read_only"]:
            for write in (lambda: ds.append(want[:1]), lambda: ds.delete([0]), ds.compact):
                refused(write, root / name, number)
            examine(ds, want)
        ds.close()
new = root.parent / "new"
refused(lambda: DenseDataset(new, dtype="u1", item_shape=()), new, number)
"""


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_without_locks(
    tmp_path: Path, dictionary: bytes, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Reading goes on as if nothing were; writing is refused."""
    shim = compiled(NO_LOCKS, tmp_path, "no_locks")
    root = tmp_path / "stores"
    fill(root, dictionary)
    monkeypatch.setenv("LD_PRELOAD", str(shim))
    monkeypatch.setenv("NO_LOCKS_ERRNO", str(number))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    before = state(root)
    ran = run_python(WITHOUT_LOCKS, str(root), str(number))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert state(root) == before
    assert not (tmp_path / "new" / "meta.zr").exists()


WITH_LOCKS_OF_NFS = """
import sys
from loaderx.dataset import DenseDataset
from loaderx.zrecord import StoreLockedError
from support import swap_last
from test_read_only import ROWS, all_same
ds, other = DenseDataset(sys.argv[1]), DenseDataset(sys.argv[1])
for operation in (lambda: ds.delete([0]), ds.compact):
    try:
        operation()
    except StoreLockedError as error:
        assert "another handle or process has it open" in str(error), error
    else:
        raise SystemExit("another handle was not noticed")
other.close()
ds.append(ROWS[:2])
for _ in range(2):
    ds.delete([0, 5])
    ds.compact()
want = swap_last(swap_last([*ROWS, *ROWS[:2]], [0, 5]), [0, 5])
assert all_same(ds[:], want)
with DenseDataset(sys.argv[1]) as other:
    assert all_same(other[:], want)
    try:
        ds.delete([0])
    except StoreLockedError:
        pass
    else:
        raise SystemExit("the lock was lost")
ds.close()
with DenseDataset(sys.argv[1]) as ds:
    ds.delete([0])
"""


def test_locks_that_are_bound_to_the_access(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS grants an exclusive lock only on a descriptor for writing; deleting and compacting work there too."""
    shim = compiled(LOCKS_OF_NFS, tmp_path, "nfs_locks")
    from_numpy(tmp_path / "store", ROWS)
    monkeypatch.setenv("LD_PRELOAD", str(shim))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    ran = run_python(WITH_LOCKS_OF_NFS, str(tmp_path / "store"))
    assert ran.returncode == 0, ran.stdout + ran.stderr


def maps_of(root: Path) -> list[str]:
    """The files below `root` that this process has mapped."""
    return [line for line in Path("/proc/self/maps").read_text().splitlines() if str(root) in line]


def test_a_file_system_in_user_space_is_read_by_pread(tmp_path: Path, dictionary: bytes) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    target.mkdir()
    fill(source, dictionary)
    before = state(source)
    stack = ExitStack()

    def work() -> None:
        with stack:
            for name, options in itertools.product(STORES, OPTIONS):
                ds, want = opened(target / name, options)
                with ds:
                    examine(ds, want)
                    assert bool(maps_of(target)) == (options["io"] == "mmap")
                    refused(Place(target, stay, errno.EROFS), options, partial(ds.append, want[:2]))
            for options in OPTIONS:
                with DenseDataset(target / "torn", **options) as ds:
                    examine(ds, ROWS[:36])
        for options in OPTIONS:  # the other way round on a local file system
            with DenseDataset(source / "dense-raw", **options) as ds:
                examine(ds, ROWS)
                assert bool(maps_of(source)) == (options["io"] != "pread")

    elsewhere(lambda: stack.enter_context(mounted(source, target)), work)
    assert state(source) == before


# -- files that are cut under a reader


@pytest.mark.parametrize("name", ["0.chunk", "0.loc", "0.sum"])
@pytest.mark.parametrize("kind", ["dense", "ragged"])
@pytest.mark.parametrize("codec", ["raw", "zstd"])
def test_a_file_that_is_cut_under_a_pread_reader(tmp_path: Path, kind: str, codec: str, name: str) -> None:
    if kind == "dense":
        from_numpy(tmp_path / kind, ROWS, codec)
    else:
        from_iterator(tmp_path / kind, RECORDS, np.int32, codec)
    ds, want = opened(tmp_path / kind, {"io": "pread", "read_only": True})
    with DataLoader({"x": ds}, batch_size=8) as loader:
        assert all_same(ds[:], want)
        next(loader)
        os.truncate(tmp_path / kind / name, (tmp_path / kind / name).stat().st_size // 2)
        with unchanged(tmp_path):
            for read in (lambda: ds[:], lambda: ds[-1], lambda: list(ds), lambda: list(itertools.islice(loader, 40))):
                if (codec, kind, name) == ("raw", "dense", "0.loc"):
                    read()  # records that are all alike need no table
                    continue
                with pytest.raises((CorruptStoreError, CorruptRecordError), match=str(tmp_path)):
                    read()
            if (codec, kind, name) == ("raw", "dense", "0.loc"):
                assert all_same(ds[:], want)
            assert same(ds[2], want[2])  # what is still there
        ds.close()
