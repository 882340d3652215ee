"""The file that says which change to several streams is under way, and changes that fail."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import threading
import zlib
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from identities import NAMES, ids_of, leftovers, make, opened_ids, part
from loaderx.dataset import DenseDataset, MSDataset, pending, settle
from loaderx.dataset.pending import Delete
from loaderx.utils import from_numpy
from loaderx.zrecord import CorruptStoreError, StoreLockedError, Zrecord, ZrecordError
from support import run_python, swap_last, unchanged

IDS = list(range(30, 38))
GONE = [1, 6]
AFTER = swap_last(IDS, GONE)
CHANGE = Delete(len(IDS), np.array(GONE, np.uint64), dict.fromkeys(NAMES, 0))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make(tmp_path / "multi", IDS)


def state(root: Path, change: dict[str, Any] | bytes = b"", outer: dict[str, Any] | None = None) -> None:
    """Write the file with a valid checksum, whatever it says."""
    fields = {
        "operation": "delete",
        "length": CHANGE.length,
        "indices": CHANGE.indices.astype("<u8").tobytes(),
        "streams": dict(CHANGE.generations),
    }
    packed = change if isinstance(change, bytes) and change else msgpack.packb(fields | dict(change or {}))
    sums = {"format": "loaderx-pending", "version": 1, "change": packed, "crc32": zlib.crc32(packed)}
    (root / "pending.msgpack").write_bytes(msgpack.packb(sums | (outer or {})))


def test_what_is_written_is_what_docs_say(root: Path) -> None:
    """`docs/format.md`, Several streams."""
    pending.write(root, CHANGE)
    content = (root / "pending.msgpack").read_bytes()
    outer = msgpack.unpackb(content)
    assert list(outer) == ["format", "version", "change", "crc32"]
    assert (outer["format"], outer["version"]) == ("loaderx-pending", 1)
    assert outer["crc32"] == zlib.crc32(outer["change"])
    assert msgpack.unpackb(outer["change"]) == {
        "operation": "delete",
        "length": 8,
        "indices": bytes([1, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0]),
        "streams": {"dense": 0, "ragged": 0, "squeezed": 0},
    }
    state(root)
    assert (root / "pending.msgpack").read_bytes() == content
    read = pending.decode(content, root / "pending.msgpack")
    assert (read.length, read.indices.tolist(), read.generations) == (8, GONE, CHANGE.generations)
    assert opened_ids(root) == AFTER


def test_every_byte_counts() -> None:
    content, file = CHANGE.encode(), Path("p")
    for place in range(len(content)):
        for value in {0, 0xFF, content[place] ^ 1, content[place] ^ 0x80} - {content[place]}:
            with pytest.raises(ZrecordError, match="^p: "):
                pending.decode(content[:place] + bytes([value]) + content[place + 1 :], file)
        with pytest.raises(CorruptStoreError, match="^p: "):
            pending.decode(content[:place], file)
    with pytest.raises(CorruptStoreError, match="^p: "):
        pending.decode(content + b"\0", file)


@pytest.mark.parametrize(
    ("change", "outer", "text"),
    [
        ({}, {"format": "loaderx-zrecord"}, "expected format = 'loaderx-pending', found format = 'loaderx-zrecord'"),
        ({}, {"version": 2}, "this release reads version 1 of unfinished changes, found version 2"),
        ({}, {"crc32": 1}, "expected a change with the CRC-32 0x00000001, found 0x"),
        ({}, {"change": "text"}, "expected change as bytes"),
        (b"\xc0", {}, "expected a msgpack map, found NoneType"),
        ({"operation": "move"}, {}, "this release finishes deletes, found an unfinished 'move'"),
        ({"length": "8"}, {}, "expected length as int"),
        ({"indices": b"1234567"}, {}, "expected indices of 8 bytes each, found 7 bytes"),
        ({"indices": b""}, {}, r"expected ascending indices below 8, found \[\]"),
        ({"indices": np.array([2, 2], "<u8").tobytes()}, {}, r"ascending indices below 8, found \[2, 2\]"),
        ({"indices": np.array([2, 8], "<u8").tobytes()}, {}, r"ascending indices below 8, found \[2, 8\]"),
        ({"indices": np.array([2**64 - 1], "<u8").tobytes()}, {}, "ascending indices below 8"),
        ({"streams": {}}, {}, "expected at least one stream, found none"),
        ({"streams": {"../multi/dense": 0}}, {}, "names of child directories, found '../multi/dense'"),
        ({"streams": {7: 0}}, {}, "names of child directories, found 7"),
        ({"streams": {"dense": -1}}, {}, "a generation of stream 'dense', found -1"),
        ({"streams": {"dense": 1 << 32}}, {}, "a generation of stream 'dense'"),
    ],
)
def test_a_file_that_states_no_change_is_not_guessed_at(
    root: Path, change: dict[str, Any] | bytes, outer: dict[str, Any], text: str
) -> None:
    state(root, change, outer)
    with unchanged(root):
        for read_only in (False, True):
            with pytest.raises(ZrecordError, match=rf"pending\.msgpack: .*{text}"):
                MSDataset(root, read_only=read_only)
        with pytest.raises(ZrecordError, match=text):
            MSDataset.repair(root)
    (root / "pending.msgpack").unlink()
    assert opened_ids(root) == IDS


@pytest.mark.parametrize("ways", ["appended to", "deleted from", "compacted", "as before, at another generation"])
def test_a_stream_that_was_changed_on_its_own_is_not_guessed_at(root: Path, ways: str) -> None:
    with DenseDataset(root / "squeezed") as stream:
        if ways == "appended to":
            stream.append(part([1])["squeezed"])
        elif ways == "deleted from":
            stream.delete(0)
        elif ways == "compacted":
            stream.delete([0, 1])
            stream.compact()
        else:
            stream.delete(0)
            stream.append(part([1])["squeezed"])
        found = f"found {len(stream)} at generation {stream._store.generation}"
    state(root)
    for attempt in (lambda: MSDataset(root), lambda: MSDataset(root, read_only=True), lambda: MSDataset.repair(root)):
        with (
            unchanged(root, but="lock.zr"),
            pytest.raises(CorruptStoreError, match="expected stream 'squeezed' with 8 .* or 6") as e,
        ):
            attempt()
        assert found in str(e.value)


def test_finishing_waits_for_readers_and_changes_nothing_before_they_are_gone(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state(root)
    reader = Zrecord(root / "squeezed")
    with monkeypatch.context() as patch, unchanged(root, but="lock.zr"):
        patch.setattr(settle, "PATIENCE", 0.1)
        for attempt in (lambda: MSDataset(root), lambda: MSDataset.repair(root)):
            with pytest.raises(
                StoreLockedError, match="squeezed.* finishing a delete needs the store alone, but another"
            ):
                attempt()
        with pytest.raises(
            ZrecordError, match=r"unfinished delete: the streams \['dense', 'ragged', 'squeezed'\] still"
        ):
            MSDataset(root, read_only=True)
    timer = threading.Timer(0.3, reader.close)
    timer.start()
    monkeypatch.setattr(settle, "PATIENCE", 60)
    assert opened_ids(root) == AFTER
    assert reader.closed
    timer.join()


def test_a_delete_that_ends_while_others_look_at_it_is_not_done_twice(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They read what it stated, and come to the streams only when its process has gone on to other changes."""
    plain, calls = settle.open_stores, iter([None])

    def late(*arguments: Any, **options: Any) -> Any:
        for _ in calls:
            for name in NAMES:
                with Zrecord(root / name) as store:
                    store.delete(GONE)
            pending.remove(root)
            with MSDataset(root) as ds:
                ds.append(part([1, 2]))
                ds.compact()
        return plain(*arguments, **options)

    state(root)
    monkeypatch.setattr(settle, "open_stores", late)
    settle.finish(root)
    assert opened_ids(root) == [*AFTER, 1, 2]


@pytest.mark.parametrize("change", ["append", "delete", "delete that fails", "repair"])
def test_what_was_not_stated_is_swept_out_by_who_writes(
    root: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    (root / "pending.msgpack.tmp").write_bytes(CHANGE.encode())
    with unchanged(root):
        assert opened_ids(root) == IDS
    if change == "repair":
        assert MSDataset.repair(root) == {}
    else:
        with MSDataset(root) as ds:
            if change == "append":
                ds.append(part([1]))
            elif change == "delete":
                ds.delete(GONE)
            else:
                monkeypatch.setattr(pending, "replace_file", lambda *_: 1 / 0)
                with pytest.raises(ZeroDivisionError):
                    ds.delete(GONE)
    assert leftovers(root) == []


def test_a_stream_that_is_gone_is_missed(root: Path) -> None:
    state(root)
    shutil.rmtree(root / "ragged")
    for read_only in (False, True):
        with unchanged(root), pytest.raises(FileNotFoundError, match="pending.msgpack tells of an unfinished delete"):
            MSDataset(root, read_only=read_only)
    assert not (root / "ragged").exists()


def test_a_delete_that_can_not_begin_changes_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with MSDataset(root) as ds:
        for owner, name in ((pending, "replace_file"), (Zrecord, "delete")):
            with monkeypatch.context() as patch:
                patch.setattr(owner, name, full)
                with unchanged(root, but="lock.zr"), pytest.raises(OSError, match="No space left"):
                    ds.delete(GONE)
            assert leftovers(root) == []
            assert ids_of(ds) == IDS
        ds.delete(GONE)
        assert ids_of(ds) == AFTER


@pytest.mark.parametrize("streams", [1, 2, 3])
def test_a_delete_that_fails_in_between_is_finished_by_opening(
    root: Path, monkeypatch: pytest.MonkeyPatch, streams: int
) -> None:
    plain, calls = Zrecord.delete, iter(range(streams))

    def delete(store: Zrecord, idxs: Any) -> None:
        if next(calls, None) is None:
            raise OSError(errno.EIO, "Input/output error")
        plain(store, idxs)

    def refused(_: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    ds = MSDataset(root)
    with monkeypatch.context() as patch:
        patch.setattr(Zrecord, "delete", delete)
        if streams == 3:
            patch.setattr(pending, "remove", refused)
        with pytest.raises(OSError, match="Input/output error") as caught:
            ds.delete(GONE)
    if sys.version_info >= (3, 11):
        assert caught.value.__notes__ == [
            "the delete is not finished; opening the dataset with write permission finishes it"
        ]
    with pytest.raises(ValueError, match="closed"):
        ds["dense"][0]
    assert opened_ids(root) == AFTER
    assert leftovers(root) == []


@pytest.mark.parametrize("done", [False, True])
def test_without_write_permission(root: Path, tmp_path: Path, done: bool) -> None:
    state(root)
    if done:
        for name in NAMES:
            with Zrecord(root / name) as store:
                store.delete(GONE)
    code = """
import os, sys
from loaderx.dataset import MSDataset
from loaderx.zrecord import ZrecordError
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
for options in ({}, {"read_only": True}):
    if sys.argv[2] == "True":
        with MSDataset(sys.argv[1], **options) as ds:
            assert len(ds) == 6, len(ds)
            try:
                ds.append({name: [ds[name][0]] for name in ds.names})
            except PermissionError:
                continue
            raise AssertionError("written")
    try:
        MSDataset(sys.argv[1], **options)
    except ZrecordError as error:
        assert "open it once with write permission to finish it" in str(error), error
    else:
        raise AssertionError("opened")
try:
    MSDataset.repair(sys.argv[1])
except PermissionError:
    pass
else:
    raise AssertionError("repaired")
"""
    # The streams are writable here, and only the directory is not.
    for path in (root, *root.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)
    root.chmod(0o555)
    (root / "pending.msgpack").chmod(0o444)
    for parent in tmp_path, *tmp_path.parents:
        if parent.stat().st_uid == os.geteuid() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o055)
    try:
        with unchanged(root):
            ended = run_python(code, str(root), str(done))
        assert ended.returncode == 0, ended.stderr
    finally:
        root.chmod(0o755)
    assert opened_ids(root) == AFTER


def test_shapes_that_are_listed_are_adopted_first(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ragged stream of loaderx 1.x may refuse to be changed: it is asked before anything is stated."""

    def refuse() -> None:
        raise ZrecordError("can be read, but not changed")

    with MSDataset(root) as ds:
        monkeypatch.setattr(ds["ragged"], "_adopt_listed_shapes", refuse)
        with unchanged(root, but="lock.zr"), pytest.raises(ZrecordError, match="not changed"):
            ds.delete(GONE)
        assert ids_of(ds) == IDS


def test_changes_need_all_streams(root: Path) -> None:
    """Part of them would be parted from the others, which nobody could see any more once they were of one length again."""
    some = {name: records for name, records in part([1]).items() if name != "squeezed"}
    with MSDataset(root, names=["dense", "ragged"]) as ds, unchanged(root):
        for change, what in ((lambda: ds.append(some), "append"), (lambda: ds.delete(0), "delete")):
            with pytest.raises(ValueError, match=rf"^{what}: .* has the streams \['squeezed'\] too, and this dataset"):
                change()
        assert len(ds) == len(IDS)
    with MSDataset(root) as ds:
        ds.append(part([1]))
        from_numpy(root / "late", np.arange(9))
        with pytest.raises(ValueError, match=r"^delete: .* has the streams \['late'\] too"):
            ds.delete(0)
        assert ids_of(ds) == [*IDS, 1]
    with DenseDataset(root / "late") as late:
        late.append(np.arange(2))
    assert MSDataset.repair(root, names=NAMES) == {}
    assert MSDataset.repair(root) == {"late": range(9, 11)}
    assert len(MSDataset(root)) == 9


def test_what_repair_refuses(root: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        MSDataset.repair(tmp_path / "missing")
    with pytest.raises(FileNotFoundError, match="no streams"):
        MSDataset.repair(root / "dense")
    with pytest.raises(FileNotFoundError, match="there is no such stream"):
        MSDataset.repair(root, names=["nothing"])
    assert not (root / "nothing").exists()
    with pytest.raises(ValueError, match="names of child directories, found '../multi/dense'"):
        MSDataset.repair(root, names=["../multi/dense"])
