"""What an argument `progress` may be, in all functions that have one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import old_stores
import pytest
from loaderx import MSDataset, concat, convert, export, migrate, progress, recode, repair, select, split, verify
from loaderx.utils import from_numpy
from support import contents

RECORDS = np.arange(400).reshape(40, 10)

WORK: dict[str, Callable[..., Any]] = {
    "recode": lambda at, **how: recode(at / "store", at / "new", "raw", **how),
    "concat": lambda at, **how: concat([at / "store"], at / "new", **how),
    "select": lambda at, **how: select(at / "store", at / "new", slice(9), **how),
    "split": lambda at, **how: split(at / "store", at / "new", {"a": 0.5, "b": 0.5}, **how),
    "streams": lambda at, **how: recode(at / "streams", at / "new", "raw", **how),
    "migrate": lambda at, **how: migrate(at / "old", at / "new", **how),
    "export": lambda at, **how: export(at / "store", at / "new", **how),
    "convert": lambda at, **how: convert(at / "array.npy", at / "new", **how),
    "verify": lambda at, **how: verify(at / "store", **how),
    "repair": lambda at, **how: repair(at / "store", **how),
    "MSDataset.verify": lambda at, **how: MSDataset.verify(at / "streams", **how),
    "MSDataset.drop_damaged": lambda at, **how: MSDataset.drop_damaged(at / "streams", **how),
}


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    from_numpy(tmp_path / "store", RECORDS)
    for name in ("a", "b"):
        from_numpy(tmp_path / "streams" / name, RECORDS)
    old_stores.write(tmp_path / "old", [row.tobytes() for row in RECORDS])
    np.save(tmp_path / "array.npy", RECORDS)
    return tmp_path


@pytest.mark.parametrize("name", WORK)
def test_true_is_a_line(sources: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    WORK[name](sources, progress=True)
    told = capsys.readouterr()
    phase = {"convert": "writing"}.get(name, "checking" if "new" not in listing(sources) else "comparing")
    assert told.err.endswith(f"{phase}: 100 %\n")
    assert told.out == ""


@pytest.mark.parametrize("nobody", [None, False])
@pytest.mark.parametrize("name", WORK)
def test_none_is_nobody(sources: Path, name: str, nobody: bool | None, capsys: pytest.CaptureFixture[str]) -> None:
    WORK[name](sources, progress=nobody)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("wrong", [1, 0, "bar", [print]])
@pytest.mark.parametrize("name", WORK)
def test_what_can_not_be_called(sources: Path, name: str, wrong: object, monkeypatch: pytest.MonkeyPatch) -> None:
    def made(*_: Any, **__: Any) -> None:
        raise AssertionError("a directory to work in was made")

    monkeypatch.setattr("tempfile.mkdtemp", made)
    before = contents(sources), listing(sources)
    with pytest.raises(TypeError, match=r"progress: expected a function of \(done, total\), True or None, found"):
        WORK[name](sources, progress=wrong)
    assert (contents(sources), listing(sources)) == before


@pytest.mark.parametrize("name", WORK)
def test_a_function_is_told(sources: Path, name: str) -> None:
    told: list[tuple[int, int]] = []
    WORK[name](sources, progress=lambda *at: told.append(at))
    assert told[-1][0] == told[-1][1] > 0


def test_the_line_ends_where_the_work_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)

    def fail() -> None:
        with progress.telling(True) as tell:
            assert tell is not None
            tell(3, 10)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert capsys.readouterr().err.endswith("\n")


def test_the_time_that_is_left_is_that_of_the_store_at_hand(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    clock = iter([0.0, 1000.0, 1000.0, 1000.0, 1000.0, 1010.0])
    monkeypatch.setattr(progress, "monotonic", lambda: next(clock))
    shown = progress.ProgressLine(("checking",))
    for done in (0, 100, 0, 50):
        shown(done, 100)
    assert capsys.readouterr().err.replace(progress.CLEAR, "").endswith("50 %  50 of 100 records, 0:10 left")


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
