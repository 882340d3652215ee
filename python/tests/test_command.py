"""The command line: `python -m loaderx`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from fixtures.stores import check, unpacked
from loaderx.__main__ import main
from loaderx.dataset import DenseDataset

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


def test_errors_are_messages(old: Path, tmp_path: Path) -> None:
    done = run("migrate", old, tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("loaderx: ")
    assert "Traceback" not in done.stderr
    done = run("migrate", tmp_path / "nothing", tmp_path / "new")
    assert (done.returncode, done.stdout) == (1, "")
    assert run("migrate").returncode == 2
    assert run().returncode == 2
