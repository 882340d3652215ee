from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from converting import (
    assert_holds,
    begins_everywhere,
    converted,
    needed,
    resumes_everywhere,
    selects,
    small_parts,
    writes_nothing,
)
from loaderx.converters import convert
from support import run_python

lmdb = needed("lmdb")
KEYS = sorted(f"k{i * 7 % 40:03}".encode() for i in range(40))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An environment in a folder, written in another order than that of its keys."""
    path = tmp_path / "in"
    with lmdb.open(str(path), map_size=1 << 22) as environment, environment.begin(write=True) as writing:
        for i in range(40):
            writing.put(f"k{i * 7 % 40:03}".encode(), value(i * 7 % 40))
    return path


def value(i: int) -> bytes:
    return bytes([i]) * (i * 50)


@pytest.fixture
def single(tmp_path: Path) -> Path:
    """An environment in a file, with databases of names."""
    path = tmp_path / "x.lmdb"
    with lmdb.open(str(path), subdir=False, lock=False, map_size=1 << 20, max_dbs=4) as environment:
        numbers = environment.open_db(b"numbers", integerkey=True)
        twice = environment.open_db(b"twice", dupsort=True)
        environment.open_db(b"nothing")
        with environment.begin(write=True) as writing:
            for i in range(300, 200, -9):
                writing.put(i.to_bytes(8, sys.byteorder), str(i).encode(), db=numbers)
            for letter in (b"b", b"a", b"c"):
                writing.put(b"x", letter, db=twice)
            writing.put(b"y", b"z", db=twice)
    return path


def raw(stream: Any) -> list[bytes]:
    return [record.tobytes() for record in stream.records]


def test_entries_in_the_order_of_their_keys(tmp_path: Path, folder: Path) -> None:
    (folder / "lock.mdb").unlink()
    streams = converted(folder, tmp_path / "out")
    assert raw(streams["key"]) == KEYS
    assert raw(streams["value"]) == [value(i) for i in range(40)]
    assert [file.name for file in folder.iterdir()] == ["data.mdb"]
    assert raw(converted(folder / "data.mdb", tmp_path / "again")["key"]) == KEYS


def test_it_begins_and_resumes_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    small_parts(monkeypatch, 5000)
    begins_everywhere(folder)
    assert resumes_everywhere(folder, tmp_path, most=3) > 3


def test_each_stream_alone(tmp_path: Path, folder: Path) -> None:
    selects(folder, tmp_path)


def test_a_dry_run_says_what_it_would_do(tmp_path: Path, folder: Path) -> None:
    said = writes_nothing(folder, tmp_path)
    assert f"LMDB, {folder / 'data.mdb'}: 40 records" in said
    assert "key: ragged '|u1', zstd, from keys, in their order" in said


def test_databases_of_names(tmp_path: Path, single: Path) -> None:
    with pytest.raises(ValueError, match=r"give database=, one of \['nothing', 'numbers', 'twice'\]"):
        convert(single, tmp_path / "out")
    streams = converted(single, tmp_path / "a", database="numbers")
    numbers = sorted(range(300, 200, -9))
    assert_holds(streams["key"], np.array(numbers, np.uint64), "u8")
    assert raw(streams["value"]) == [str(i).encode() for i in numbers]
    streams = converted(single, tmp_path / "b", database="twice")
    assert raw(streams["key"]) == [b"x", b"x", b"x", b"y"]
    assert raw(streams["value"]) == [b"a", b"b", b"c", b"z"]
    assert converted(single, tmp_path / "c", database="nothing")["key"].records == []
    with pytest.raises(ValueError, match="x.lmdb: "):
        convert(single, tmp_path / "d", database="none")


def test_what_is_refused(tmp_path: Path, folder: Path, single: Path) -> None:
    with pytest.raises(ValueError, match="expected one LMDB environment, found 2"):
        convert([folder, single], tmp_path / "out")
    whole = (folder / "data.mdb").read_bytes()
    for size in (4096, 8192, 12288, len(whole) // 2, len(whole) - 1):
        (folder / "data.mdb").write_bytes(whole[:size])
        # In a process of its own: what is mapped and not there ends it.
        code = "import sys; from loaderx.converters import convert; convert(sys.argv[1], sys.argv[2])"
        found = run_python(code, str(folder), str(tmp_path / "cut"))
        assert found.returncode == 1, (size, found)
        assert "data.mdb: expected" in found.stderr, found.stderr


@pytest.mark.parametrize("streams", [None, ["key"]])
def test_databases_behind_many_plain_entries(tmp_path: Path, streams: list[str] | None) -> None:
    with lmdb.open(str(tmp_path / "in"), map_size=1 << 22) as environment, environment.begin(write=True) as writing:
        for at in range(400):
            writing.put(f"a{at:03}".encode(), bytes([at % 256]) * 48)
    plain = converted(tmp_path / "in", tmp_path / "plain", streams=streams)
    with lmdb.open(str(tmp_path / "in"), map_size=1 << 22, max_dbs=2) as environment:
        environment.open_db(b"zz")
    assert raw(plain["key"]) == [f"a{at:03}".encode() for at in range(400)]
    if streams is None:
        assert raw(plain["value"]) == [bytes([at % 256]) * 48 for at in range(400)]
    with pytest.raises(ValueError, match=r"holds databases of names: give database=, one of \['zz'\]"):
        convert(tmp_path / "in", tmp_path / "out", streams=streams)
