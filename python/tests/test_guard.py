"""The comparison of the regression guard can fail."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

PATH = Path(__file__).resolve().parents[2] / "bench" / "guard" / "guard.py"


@pytest.fixture
def guard() -> Any:
    spec = importlib.util.spec_from_file_location("guard", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("now", "good", "text"),
    [
        (1000, True, "+0.0%"),
        (1100, True, "+10.0%"),
        (1101, False, "FAILED: +10.1%"),
        (5000, False, "FAILED: +400.0%"),
        (900, True, "-10.0%"),
        (899, True, "better: -10.1%"),
    ],
)
def test_a_clear_loss_fails_and_nothing_else(guard: Any, now: int, good: bool, text: str) -> None:
    lines, passed = guard.compare({"steady": 7, "case": 1000}, {"steady": 7, "case": now})
    assert passed is good
    assert len(lines) == 2
    assert text in lines[1]
    assert lines[0].endswith("+0.0%")


def test_a_case_without_a_figure_fails(guard: Any) -> None:
    for baseline, counts, text in [
        ({}, {"case": 5}, "not in the baseline"),
        ({"case": 5}, {}, "not measured"),
    ]:
        lines, passed = guard.compare(baseline, counts)
        assert not passed
        assert text in lines[0]


def test_one_good_case_does_not_make_up_for_a_bad_one(guard: Any) -> None:
    for order in ({"slow": 2000, "fast": 1}, {"fast": 1, "slow": 2000}):
        assert not guard.compare({"slow": 1000, "fast": 1000}, order)[1]


def test_a_baseline_is_read_as_it_was_written(guard: Any) -> None:
    machines = {"x86_64+avx2": {"a": 1, "b": 22}, "aarch64": {"a": 3}}
    assert guard.read(guard.write(machines)) == machines
    assert guard.read(guard.HEAD) == {}


def test_the_kept_baseline_has_figures(guard: Any) -> None:
    machines = guard.read(guard.BASELINE.read_text())
    assert "x86_64+avx2" in machines
    assert all(count > 0 for counts in machines.values() for count in counts.values())
