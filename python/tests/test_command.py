"""The command line: `python -m loaderx`."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import old_stores
import pytest
from fixtures import recipe
from fixtures.stores import check, unpacked
from loaderx import progress, split
from loaderx.__main__ import main
from loaderx.dataset import DenseDataset
from loaderx.utils import from_numpy
from support import images, run_python

NAME = "images-zstd"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return unpacked("0.9.11", tmp_path / "old", NAME) / NAME


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "loaderx", *map(str, arguments)], capture_output=True, text=True, check=False
    )


def test_migrate_and_export(old: Path, tmp_path: Path) -> None:
    done = run("migrate", old, tmp_path / "new")
    assert done.returncode == 0
    assert done.stdout.startswith("DenseDataset(")
    assert "len=12" in done.stdout
    assert "as it was" in done.stdout
    assert done.stderr.splitlines() == ["writing:   0 %", "comparing:  50 %", "comparing: 100 %"]
    check(tmp_path / "new", NAME)
    assert run("export", tmp_path / "new", tmp_path / "copy").returncode == 0
    check(tmp_path / "copy", NAME)


def test_options(old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["--quiet", "--codec", "zstd", "--level", "7"]
    main(["migrate", str(old), str(tmp_path / "new"), *common, "--dtype", "u1", "--item-shape", "2,24"])
    main(["export", str(tmp_path / "new"), str(tmp_path / "copy"), "--format", "1.5", *common])
    assert capsys.readouterr() == ("", "")
    with DenseDataset(tmp_path / "copy") as dataset:
        assert dataset.item_shape == (2, 24)
        assert dataset.codec == "zstd"


def test_bytes_have_no_schema_to_tell_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = unpacked("0.5.0", tmp_path / "old", "blobs-flate") / "blobs-flate"
    main(["migrate", str(old), str(tmp_path / "new")])
    assert capsys.readouterr().out.startswith("Zrecord(")


def test_streams(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unpacked("1.1.3", tmp_path / "old", "images-raw", "mixed-zstd")
    main(["migrate", str(tmp_path / "old"), str(tmp_path / "new")])
    assert capsys.readouterr().out.startswith("MSDataset(")
    check(tmp_path / "new" / "mixed-zstd", "mixed-zstd")


def test_what_a_dictionary_gains_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old_stores.write(tmp_path / "old", [row.tobytes() for row in recipe.words(2000)])
    main(["migrate", str(tmp_path / "old"), str(tmp_path / "new"), "--codec", "zstd_dict"])
    assert capsys.readouterr().out.splitlines()[1].startswith("the dictionary ")


def test_errors_are_messages(old: Path, tmp_path: Path) -> None:
    done = run("migrate", old, tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("loaderx: ")
    assert "Traceback" not in done.stderr
    assert "Errno" not in done.stderr
    assert done.stderr.startswith(f"loaderx: {tmp_path}: there is something already")
    done = run("migrate", tmp_path / "nothing", tmp_path / "new")
    assert (done.returncode, done.stdout) == (1, "")
    assert run("migrate").returncode == 2
    assert run().returncode == 2


@pytest.fixture
def store(tmp_path: Path) -> Path:
    from_numpy(tmp_path / "src", images(4000), codec="raw")
    return tmp_path / "src"


def test_recode(store: Path, tmp_path: Path) -> None:
    done = run("recode", store, tmp_path / "dst", "--codec", "zstd_dict", "--dict-tier", "fast", "--level", "5")
    assert done.returncode == 0
    first, second, third = done.stdout.splitlines()
    assert first.startswith("DenseDataset(")
    assert "codec='zstd_dict'" in first
    assert "KiB in" in second
    assert "which is as it was" in second
    assert third.startswith("the dictionary saves")
    assert "level 5" in third
    assert done.stderr.splitlines() == ["writing:   0 %", "comparing:  50 %", "comparing: 100 %"]
    done = run("recode", store, tmp_path / "again", "--no-compare")
    assert done.stderr.splitlines() == ["writing:   0 %", "writing: 100 %"]


def test_concat_select_split(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = images(4000)
    new = tmp_path / "new"
    np.save(tmp_path / "mask.npy", np.arange(4000) % 2 == 0)
    (tmp_path / "list.txt").write_text("7\n-1\n7\n")
    indices: dict[str, Any] = {
        "10:20": slice(10, 20),
        "::500": slice(None, None, 500),
        "5,7,-1": [5, 7, -1],
        f"@{tmp_path}/mask.npy": slice(None, None, 2),
        f"@{tmp_path}/list.txt": [7, -1, 7],
    }
    for number, (text, index) in enumerate(indices.items()):
        main(["select", str(store), str(new / f"s{number}"), text, "--quiet"])
        assert np.array_equal(DenseDataset(new / f"s{number}")[:], data[index])
    main(["select", "--quiet", str(store), str(new / "last"), "--", "-3:"])
    assert np.array_equal(DenseDataset(new / "last")[:], data[-3:])
    main(["concat", str(new / "s0"), str(new / "s1"), str(new / "both"), "--codec", "zstd", "--quiet"])
    assert np.array_equal(DenseDataset(new / "both")[:], np.concatenate([data[10:20], data[::500]]))
    assert capsys.readouterr() == ("", "")
    main(["split", str(store), str(new / "split"), "train=0.75", "val=0.25", "--seed", "3"])
    assert capsys.readouterr().out.count("DenseDataset(") == 2
    split(store, new / "twin", {"train": 0.75, "val": 0.25}, 3)
    for part in ("train", "val"):
        assert np.array_equal(DenseDataset(new / "split" / part)[:], DenseDataset(new / "twin" / part)[:])
    main(["split", str(store), str(new / "first"), "a=1000", "b=3000", "--no-shuffle", "--quiet"])
    assert np.array_equal(DenseDataset(new / "first" / "a")[:], data[:1000])
    main(["split", str(store), str(new / "by"), "a=:9", "b=9:", "--quiet"])
    assert np.array_equal(DenseDataset(new / "by" / "a")[:], data[:9])


@pytest.mark.parametrize("kind", ["empty", "objects", "pickle", "zip", "cut"])
def test_files_of_indices_that_are_none(store: Path, tmp_path: Path, kind: str) -> None:
    file = tmp_path / "index.npy"
    np.save(file, np.array([1, "a"], object) if kind == "objects" else np.arange(9))
    if kind == "empty":
        file.write_bytes(b"")
    elif kind == "pickle":
        file.write_bytes(pickle.dumps([1, 2]))
    elif kind == "zip":
        with file.open("wb") as stream:
            np.savez(stream, a=np.arange(3))
    elif kind == "cut":
        file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(SystemExit) as error:
        main(["select", str(store), str(tmp_path / "dst"), f"@{file}"])
    told = str(error.value)
    assert f"loaderx: {file}: expected a .npy file of indices or a mask: " in told
    assert "trust" not in told
    assert not (tmp_path / "dst").exists()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["select", "src", "dst", "1:2:3:4"], "index: expected records such as"),
        (["select", "src", "dst", "one"], "found 'one'"),
        (["select", "src", "dst", "4000"], "out of range"),
        (["select", "src", "dst", "@src/meta.zr"], ""),
        (["split", "src", "dst", "train"], "NAME=SHARE"),
        (["split", "src", "dst", "a=0.5", "a=0.5"], "each name once"),
        (["split", "src", "dst", "a=0.5", "b=2"], "all fractions"),
        (["concat", "src", "src"], "something already"),
        (["recode", "src", "src/dst"], "outside of"),
        (["recode", "src", "dst", "--dict-tier", "fast"], "dict_tier: expected none"),
    ],
)
def test_mistakes_are_messages(store: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], text: str) -> None:
    monkeypatch.chdir(store.parent)
    with pytest.raises(SystemExit, match=f"loaderx: .*{text}"):
        main(arguments)
    assert [path.name for path in store.parent.iterdir()] == ["src"]


def test_an_interrupt(store: Path, tmp_path: Path) -> None:
    code = "import signal, sys; from loaderx.__main__ import main; from loaderx.progress import ProgressLine;"
    code += "ProgressLine.__call__ = lambda *_: signal.raise_signal(signal.SIGINT);"
    code += "signal.signal(signal.SIGINT, signal.default_int_handler); main(sys.argv[1:])"
    done = run_python(code, "recode", str(store), str(tmp_path / "dst"))
    assert (done.returncode, done.stderr) == (1, "loaderx: interrupted; nothing is left of what was begun\n")
    assert [path.name for path in tmp_path.iterdir()] == ["src"]


def test_a_line_that_is_written_over(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    clock = iter([0.0, 0.0, 6.0, 12.0, 20.0])
    monkeypatch.setattr(progress, "monotonic", lambda: next(clock))
    shown = progress.ProgressLine()
    for done in (0, 600, 601, 1200, 2000):
        shown(done, 2000)
    assert capsys.readouterr().err.replace("\x1b[K", "").split("\r") == [
        "",
        "writing:   0 %  0 of 1,000 records",
        "writing:  30 %  600 of 1,000 records, 0:14 left",
        "comparing:  60 %  200 of 1,000 records, 0:08 left",
        "comparing: 100 %  1,000 of 1,000 records, 0:20\n",
    ]
    assert progress.duration(3725) == "1:02:05"


@pytest.mark.parametrize("pairs", ["a,a", "a=x,a=y", "a=x=y", "a="])
def test_pairs_that_would_be_lost(tmp_path: Path, pairs: str, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "a.npy", np.arange(3))
    with pytest.raises(SystemExit):
        main(["convert", str(tmp_path / "a.npy"), str(tmp_path / "out"), "--streams", pairs])
    assert "each name once" in capsys.readouterr().err
