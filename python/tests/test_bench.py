"""`python -m loaderx.bench`: it measures stores of each kind, says what is wrong with others, and changes nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from loaderx.bench import example, show, store
from loaderx.bench.__main__ import main
from loaderx.bench.timing import side_by_side, times
from loaderx.dataset import DenseDataset
from loaderx.utils import from_iterator, from_numpy
from support import unchanged

SECONDS = 0.2


@pytest.fixture(params=["raw", "zstd", "zstd_dict"])
def dense(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    rows = np.random.default_rng(0).integers(0, 9, (300, 64), np.int32)
    from_numpy(tmp_path / "dense", rows, codec=request.param)
    return tmp_path / "dense"


@pytest.fixture
def ragged(tmp_path: Path) -> Path:
    from_iterator(tmp_path / "ragged", [np.arange(n, dtype=np.int32) for n in range(1, 40)], np.int32)
    return tmp_path / "ragged"


def test_a_dense_store_is_measured_and_left_as_it_was(dense: Path) -> None:
    with unchanged(dense):
        measured = store.measure(dense, SECONDS)
    assert (measured.kind, measured.records, measured.record_bytes) == ("dense", 300, 256)
    whats = {figure.what for figure in measured.figures}
    assert {"open", "random, verify always", "random, verify never", "sequential, verify always", "loader"} <= whats
    assert {"sampler, iid", "sampler, cyclic", "sampler, sequential", store.COPY} <= whats
    assert {figure.batch for figure in measured.figures} == {0, 16, 256, 300}
    assert all(seconds > 0 for figure in measured.figures for seconds in figure.rounds)


def test_a_ragged_store_smaller_than_a_batch(ragged: Path) -> None:
    with unchanged(ragged):
        measured = store.measure(ragged, SECONDS)
    assert (measured.kind, measured.records, measured.record_bytes) == ("ragged", 39, 80)
    assert {figure.batch for figure in measured.figures} == {0, 16, 39}


def test_the_table_has_a_line_for_each_figure(ragged: Path) -> None:
    measured = store.measure(ragged, SECONDS)
    lines = list(show.lines(measured))
    assert len(lines) == 2 + len(measured.figures)
    assert "39 records" in lines[0]
    compared = [line for line in lines if line.endswith("%")]
    assert len(compared) == 2 * 2 * 2 + 1  # two orders, two ways of checking, two sizes; the loader


def test_the_command_prints_json(dense: Path) -> None:
    command = [sys.executable, "-m", "loaderx.bench", str(dense), "--json", "--seconds", str(SECONDS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["machine"]["cores"]
    assert [one["path"] for one in found["stores"]] == [str(dense)]
    assert all(figure["seconds"] > 0 for figure in found["stores"][0]["figures"])


def test_the_example_stores_are_gone_afterwards() -> None:
    with example.stores(part=0.001) as paths:
        kinds = {store.measure(path, SECONDS).kind for path in paths}
    assert kinds == {"dense", "ragged"}
    assert not any(path.exists() for path in paths)


def test_what_is_no_store_is_said(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="missing"):
        main([str(tmp_path / "missing")])


def test_an_empty_store_is_said(tmp_path: Path) -> None:
    DenseDataset(tmp_path / "empty", dtype=np.int32, item_shape=(3,)).close()
    with pytest.raises(SystemExit, match="no records"):
        main([str(tmp_path / "empty")])


def test_actions_take_turns() -> None:
    calls: list[str] = []
    figures = side_by_side({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 1, 8, 0)
    assert calls == ["a", "b"] * (len(calls) // 2)
    assert [figure.what for figure in figures] == ["a", "b"]
    assert len(times(lambda: None, 0)) == 1


@pytest.mark.parametrize("seconds", ["nan", "inf", "-1", "0", "1e9", "soon"])
def test_a_time_without_an_end_is_refused(dense: Path, seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([str(dense), f"--seconds={seconds}"])
    assert "--seconds" in capsys.readouterr().err
