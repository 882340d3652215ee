"""The stub of the binding tells the truth about it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import loaderx
import pytest
from loaderx import _core

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
@pytest.mark.timeout(300)
def test_the_stub_matches(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "loaderx._core"],
        cwd=ROOT,
        env=os.environ | {"MYPYPATH": str(ROOT / "python"), "MYPY_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_promised_name_is_there() -> None:
    assert all(hasattr(loaderx, name) for name in loaderx.__all__)
    assert loaderx.__version__ == _core.__version__
    assert (Path(loaderx.__file__).parent / "py.typed").exists()


def test_one_version_number() -> None:
    manifest = (ROOT / "Cargo.toml").read_text()
    assert f'version = "{loaderx.__version__}"' in manifest.split("[workspace.package]")[1].split("[")[0]


def test_small_files(tmp_path: Path) -> None:
    file = tmp_path / "größe x"
    _core.replace_file(file, b"one")
    _core.replace_file(str(file), b"")
    assert _core.read_small_file(file) == b""
    assert [path.name for path in tmp_path.iterdir()] == ["größe x"]
    with pytest.raises(FileNotFoundError) as caught:
        _core.read_small_file(tmp_path / "missing")
    assert caught.value.filename == str(tmp_path / "missing")
