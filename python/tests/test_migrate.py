"""Migration of the stores that published releases wrote, which lie in `fixtures`."""

from __future__ import annotations

import errno
import hashlib
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import loaderx
import numpy as np
import old_stores
import pytest
from fixtures import recipe
from fixtures.stores import OLDER, at_full_size, check, expected, names, unpacked
from loaderx import DenseDataset, MSDataset, RaggedDataset, Zrecord, ZrecordError, migrate, repair, verify
from loaderx.copying import writing
from loaderx.copying.writing import append
from loaderx.utils import from_iterator, from_numpy, train_dict
from loaderx.utils.gain import told

ALL = [(version, name) for version in OLDER for name in names(version)]
DENSE = ("0.5.0", "images-flate")


def one(folder: Path, version: str, name: str) -> Path:
    return unpacked(version, folder / "old", name) / name


def digests(folder: Path) -> dict[str, tuple[str, int]]:
    return {
        file.name: (hashlib.sha256(file.read_bytes()).hexdigest(), file.stat().st_mtime_ns) for file in folder.iterdir()
    }


@pytest.mark.parametrize(("version", "name"), ALL)
def test_each_store(tmp_path: Path, version: str, name: str) -> None:
    old = one(tmp_path, version, name)
    before = digests(old)
    assert migrate(old, tmp_path / "new") == len(expected(name))
    check(tmp_path / "new", name)
    report = verify(tmp_path / "new")
    assert report.ok
    assert report.sums_known
    assert digests(old) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "old"]


@pytest.mark.parametrize("version", OLDER)
def test_files_at_their_full_size(tmp_path: Path, version: str) -> None:
    name = next(name for name in names(version) if name.startswith("images"))
    old = at_full_size(one(tmp_path, version, name))
    migrate(old, tmp_path / "new")
    check(tmp_path / "new", name)


@pytest.mark.parametrize("codec", ["raw", "zstd", "zstd_dict"])
@pytest.mark.parametrize(("version", "name"), [DENSE, ("0.9.11", "words-zstd_dict"), ("0.10.1", "mixed-zstd")])
def test_another_codec(tmp_path: Path, version: str, name: str, codec: str) -> None:
    old = one(tmp_path, version, name)
    given = train_dict(recipe.words(), tier="fast") if codec == "zstd_dict" and "dict" not in name else None
    migrate(old, tmp_path / "new", codec, dict_bytes=given, level=5 if codec != "raw" else None)
    check(tmp_path / "new", name.replace(name.split("-")[1], codec))
    assert Zrecord(tmp_path / "new").level == (None if codec == "raw" else 5)


def test_the_dictionary_is_the_old_one(tmp_path: Path) -> None:
    old = one(tmp_path, "0.9.11", "words-zstd_dict")
    done = migrate(old, tmp_path / "new")
    assert (tmp_path / "new" / "dict.zr").read_bytes() == (old / "dict.zr").read_bytes()
    assert done.gains == {}


def test_a_dictionary_is_trained_where_there_is_none(tmp_path: Path) -> None:
    blocks = recipe.words(2000)
    old_stores.write(tmp_path / "old", [row.tobytes() for row in blocks])
    done = migrate(tmp_path / "old", tmp_path / "new", "zstd_dict", dtype="u1", level=7)
    with RaggedDataset(tmp_path / "new") as dataset:
        assert dataset.has_dict()
        assert np.array_equal(np.stack(dataset[:]), blocks)
    gain = done.gains[""]
    assert gain is not None
    assert (done, gain.records, gain.bytes, gain.level) == (2000, 125, 125 * blocks[0].nbytes, 7)
    assert gain.dictionary == (tmp_path / "new" / "dict.zr").stat().st_size
    assert [path.name for path in (tmp_path / "new").iterdir() if path.is_dir()] == []


def test_long_records_are_measured_whole(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    records = [row.tobytes() for row in recipe.words(320)]
    records[8::16] = [rng.integers(0, 256, 200_000, np.uint8).tobytes() for _ in records[8::16]]
    old_stores.write(tmp_path / "old", records, codec=0)
    gain = migrate(tmp_path / "old", tmp_path / "new", "zstd_dict", level=1).gains[""]
    assert gain is not None
    assert (gain.records, gain.bytes) == (20, 20 * 200_000)


def test_too_few_records_for_a_dictionary(tmp_path: Path) -> None:
    old = one(tmp_path, "0.5.0", "blobs-flate")
    with pytest.raises(ZrecordError, match="choose another codec"):
        migrate(old, tmp_path / "new", "zstd_dict")
    assert not (tmp_path / "new").exists()


def test_own_keys_of_the_schema_are_kept(tmp_path: Path) -> None:
    migrate(one(tmp_path, "0.9.11", "labels-zstd"), tmp_path / "new")
    assert DenseDataset(tmp_path / "new").metadata == {"made by": "us"}


def test_bytes_as_a_ragged_store(tmp_path: Path) -> None:
    migrate(one(tmp_path, "0.9.11", "blobs-zstd"), tmp_path / "new", dtype=np.uint8)
    with RaggedDataset(tmp_path / "new") as dataset:
        assert [record.tobytes() for record in dataset[:]] == recipe.blobs()


def test_what_the_records_are_instead_of_what_the_schema_says(tmp_path: Path) -> None:
    old = one(tmp_path, "0.9.11", "skeletons-zstd")
    migrate(old, tmp_path / "flat", item_shape=())
    with RaggedDataset(tmp_path / "flat") as dataset:
        assert all(np.array_equal(a, b.reshape(-1)) for a, b in zip(dataset[:], recipe.skeletons(), strict=True))
    migrate(old, tmp_path / "bytes", dtype="u1", item_shape=(4,))
    with RaggedDataset(tmp_path / "bytes") as dataset:
        assert all(
            np.array_equal(a, b.reshape(-1).view(np.uint8).reshape(-1, 4))
            for a, b in zip(dataset[:], recipe.skeletons(), strict=True)
        )
    with pytest.raises(ZrecordError, match=r"record 0: expected a multiple of 28 bytes .* dtype= and item_shape="):
        migrate(old, tmp_path / "wrong", item_shape=(7,))


def test_an_empty_store(tmp_path: Path) -> None:
    old = old_stores.write(tmp_path / "old", [])
    assert migrate(old, tmp_path / "new") == 0
    assert len(Zrecord(tmp_path / "new")) == 0


def test_records_in_several_chunks_and_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loaderx.copying.block.BLOCK_BYTES", 1000)
    monkeypatch.setattr("loaderx.generations.source.BLOCK_RECORDS", 50)
    records = [bytes([i % 256]) * (i % 37) + bytes(recipe.noise(i % 23, i)) for i in range(777)]
    for codec in (0, 1):
        old = old_stores.write(tmp_path / f"old{codec}", records, chunk=2000, codec=codec)
        assert (old / "3.zr").exists()
        migrate(old, tmp_path / f"new{codec}", dtype="u1")
        with RaggedDataset(tmp_path / f"new{codec}") as dataset:
            assert [record.tobytes() for record in dataset[:]] == records


def test_progress(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    migrate(one(tmp_path, *DENSE), tmp_path / "new", progress=lambda done, total: told.append((done, total)))
    assert told[0] == (0, 24)
    assert told[-1] == (24, 24)
    assert told == sorted(told)


def test_what_is_there_is_not_touched(tmp_path: Path) -> None:
    old = one(tmp_path, *DENSE)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("file", "folder", "link"):
        with pytest.raises(FileExistsError) as caught:
            migrate(old, tmp_path / name)
        assert caught.value.errno == errno.EEXIST
    assert (tmp_path / "file").read_text() == "mine"
    assert list((tmp_path / "folder").iterdir()) == []
    with pytest.raises(ValueError, match="outside of"):
        migrate(old, old / "new")


def test_what_is_no_old_store(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        migrate(tmp_path / "nothing", tmp_path / "new")
    (tmp_path / "folder").mkdir()
    with pytest.raises(FileNotFoundError):
        migrate(tmp_path / "folder", tmp_path / "new")
    from_numpy(tmp_path / "ours", np.arange(3))
    with pytest.raises(ValueError, match="open as they are"):
        migrate(tmp_path / "ours", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_arguments(tmp_path: Path) -> None:
    old = one(tmp_path, *DENSE)
    cases: dict[str, dict[str, Any]] = {
        "unknown codec": {"codec": "flate"},
        "only 'zstd_dict' has": {"codec": "zstd", "dict_bytes": b"x"},
        "level": {"level": 99},
        "item_shape": {"item_shape": (-1,)},
    }
    for message, options in cases.items():
        with pytest.raises(ValueError, match=message):
            migrate(old, tmp_path / "new", **options)
    with pytest.raises(TypeError):
        migrate(old, tmp_path / "new", dtype=object)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old"]


def test_nothing_is_left_of_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = one(tmp_path, *DENSE)

    def stop(done: int, total: int) -> None:
        if done == total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        migrate(old, tmp_path / "new", progress=stop)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old"]

    def wrong(store: Zrecord, block: Any, uniform: bool) -> None:
        block.values[5] ^= 1
        append(store, block, uniform)

    monkeypatch.setattr(writing, "append", wrong)
    with pytest.raises(ZrecordError, match="not what was to be copied"):
        migrate(old, tmp_path / "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old"]


def test_a_killed_process_leaves_no_store(tmp_path: Path) -> None:
    old = one(tmp_path, *DENSE)
    code = "import loaderx, sys, time; loaderx.migrate(*sys.argv[1:], progress=lambda done, total: time.sleep(60 * (done > 0)))"
    with subprocess.Popen([sys.executable, "-c", code, old, tmp_path / "new"]) as process:
        while not list(tmp_path.glob(".new.unfinished-*/new/0.chunk")):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert not (tmp_path / "new").exists()
    migrate(old, tmp_path / "new")
    check(tmp_path / "new", DENSE[1])


@pytest.mark.parametrize(
    ("version", "name", "release"),
    [
        ("0.5.0", "images-flate", "loaderx 0.5,"),
        ("0.5.0", "blobs-flate", "loaderx 0.5 or 1.0,"),
        ("0.7.3", "images-zstd", "loaderx 0.7 to 0.10,"),
        ("0.9.11", "words-zstd_dict", "loaderx 0.7 to 0.10,"),
        ("1.0.0", "mixed-zstd", "loaderx 1.0,"),
        ("1.1.3", "images-raw", "loaderx 1.1 to 1.4,"),
    ],
)
@pytest.mark.parametrize("full", [False, True])
def test_opening_one_says_what_it_is(tmp_path: Path, version: str, name: str, release: str, full: bool) -> None:
    old = one(tmp_path, version, name)
    if full:
        at_full_size(old)
    opened: list[Any] = [DenseDataset, RaggedDataset, Zrecord, verify, repair]
    for how in (*opened, lambda path: MSDataset(path.parent), lambda path: loaderx.export(path, tmp_path / "copy")):
        before = (old / "meta.zr").stat().st_mtime_ns
        with pytest.raises(ZrecordError, match=f"{name} is a store of {release}.*loaderx.migrate"):
            how(old)
        assert (old / "meta.zr").stat().st_mtime_ns == before


def test_an_empty_one_does_not_pass_for_a_store_of_today(tmp_path: Path) -> None:
    """The header of an empty store of 0.9, read as version 3, is that of an empty raw store."""
    old = old_stores.write(tmp_path / "old", [], version=3)
    with pytest.raises(ZrecordError, match="migrate"):
        Zrecord(old)
    at_full_size(old)
    with pytest.raises(ZrecordError, match="migrate"):
        Zrecord(old, "raw")


def test_the_worked_example(tmp_path: Path) -> None:
    """The hex of `docs/exchange.md` is what the release writes."""
    text = (Path(__file__).parents[2] / "docs" / "exchange.md").read_text()
    shown = {name: bytes.fromhex(dump) for name, dump in re.findall(r"```hex ([^\n]+)\n(.*?)```", text, re.DOTALL)}
    old = one(tmp_path, "0.5.0", "example-flate")
    of_it = {name: content for name, content in shown.items() if not name.startswith("2.8 ")}
    assert of_it == {file.name: file.read_bytes() for file in old.iterdir()}


def test_a_stray_file_makes_no_old_store(tmp_path: Path) -> None:
    from_iterator(tmp_path / "ours", [b"abc"], np.uint8)
    (tmp_path / "ours" / "0.zr").write_bytes(b"stray")
    assert RaggedDataset(tmp_path / "ours")[0].tobytes() == b"abc"


def test_memory_does_not_grow_with_the_store(tmp_path: Path) -> None:
    old = old_stores.write(tmp_path / "old", [bytes([i]) * 2**20 for i in range(200)], codec=0)
    code = (
        "import loaderx, resource, sys\n"
        "used = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10\n"
        "before = used(); loaderx.migrate(*sys.argv[1:]); print(used() - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, old, tmp_path / "new"], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 120


def test_streams_of_one_directory(tmp_path: Path) -> None:
    for name in ("images-zstd", "mixed-zstd"):
        unpacked("0.10.1", tmp_path / "old", name)
    told: list[tuple[int, int]] = []
    assert migrate(tmp_path / "old", tmp_path / "new", progress=lambda *done: told.append(done)) == 12
    assert told.count((24, 24)) == 2
    with MSDataset(tmp_path / "new") as streams:
        assert streams.names == ["images-zstd", "mixed-zstd"]
    for name in ("images-zstd", "mixed-zstd"):
        check(tmp_path / "new" / name, name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "old"]


def test_dictionaries_of_streams_and_a_stream_called_new(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    for name in ("new", "other", "scratch"):
        old_stores.write(tmp_path / "old" / name, [row.tobytes() for row in recipe.words(2000)])
    done = migrate(tmp_path / "old", tmp_path / "moved", "zstd_dict")
    assert done == 2000
    assert list(done.gains) == ["new", "other", "scratch"]
    assert [line.split(":")[0] for line in told(done.gains)] == list(done.gains)
    assert sorted(path.name for path in (tmp_path / "moved").iterdir()) == list(done.gains)
    assert all(file.is_file() for file in (tmp_path / "moved" / "new").iterdir())


def test_streams_that_can_not_be_migrated_together(tmp_path: Path) -> None:
    old = tmp_path / "old"
    unpacked("0.10.1", old, "images-zstd")
    for options in ({"dtype": "u1"}, {"item_shape": ()}, {"dict_bytes": b"x"}):
        with pytest.raises(ValueError, match="are of one store"):
            migrate(old, tmp_path / "new", **options)
    with pytest.raises(ValueError, match="outside"):
        migrate(old, old / "new")
    unpacked("0.10.1", old, "words-zstd_dict")
    with pytest.raises(ValueError, match="streams of one length, found .*'images-zstd': 12, 'words-zstd_dict': 200"):
        migrate(old, tmp_path / "new")
    from_numpy(old / "ours", np.arange(12))
    with pytest.raises(ValueError, match="ours: this is no store of loaderx 0.5"):
        migrate(old, tmp_path / "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old"]
