"""Lance datasets that pylance wrote."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from arrow_tables import table
from converting import (
    assert_holds,
    begins_everywhere,
    converted,
    cut_early,
    goes_on_with_itself_alone,
    needed,
    read_all,
    resumes_everywhere,
    selects,
    small_parts,
    writes_nothing,
)
from loaderx.converters import convert
from support import all_same

pa = needed("pyarrow")
lance = needed("lance")
FEW = ["i1", "u8", "f2", "f4", "f8", "bool", "date32", "bits", "list_", "string", "large_binary"]


def test_every_type(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, wanted = table(pa)
    lance.write_dataset(whole.select(FEW), str(memory / "in"), max_rows_per_file=9)
    found = read_all(memory / "in")
    for name in FEW:
        case = wanted[name]
        assert all_same(found[name], [np.asarray(one, case.dtype) for one in case.records]), name
    small_parts(monkeypatch, 100)
    few = ["i1", "list_", "string"]
    assert resumes_everywhere(memory / "in", memory, most=4, streams=few) > 5
    begins_everywhere(memory / "in", most=8)
    selects(pa_dataset(memory).to_table().select(few), memory)
    begins_everywhere(pa_dataset(memory), most=3)
    assert "Lance, " in writes_nothing(memory / "in", memory)


def pa_dataset(memory: Path) -> Any:
    return lance.dataset(str(memory / "in"))


def test_versions_and_deletions(memory: Path) -> None:
    lance.write_dataset(pa.table({"x": np.arange(10)}), str(memory / "in"))
    lance.write_dataset(pa.table({"x": np.arange(10, 20)}), str(memory / "in"), mode="append")
    pa_dataset(memory).delete("x % 3 = 0")
    assert_holds(converted(memory / "in", memory / "out")["x"], np.array([i for i in range(20) if i % 3]))


def test_an_open_dataset_that_is_another_one(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dataset elsewhere, one that was written anew in the same place, and another version."""
    small_parts(monkeypatch, 100)

    def written(which: int, name: str) -> Any:
        shutil.rmtree(memory / name, ignore_errors=True)
        lance.write_dataset(pa.table({"x": np.arange(100) + which}), str(memory / name))

    for which in range(2):
        written(which, f"in{which}")
    goes_on_with_itself_alone(lambda which: lance.dataset(str(memory / f"in{which}")), memory)
    lance.dataset(str(memory / "in0")).update({"x": "x + 1"})
    goes_on_with_itself_alone(lambda which: lance.dataset(str(memory / "in0"), version=1 + which), memory)
    opened = lance.dataset(str(memory / "in0"))
    cut_early(opened, memory / "out")
    opened.update({"x": "x + 1"})
    with pytest.raises(ValueError, match="source: was"):
        convert(lance.dataset(str(memory / "in0")), memory / "out")
    cut_early(lance.dataset(str(memory / "in1")), memory / "out", restart=True)
    written(5, "in1")
    with pytest.raises(ValueError, match="source: was"):
        convert(lance.dataset(str(memory / "in1")), memory / "out")


def test_damage(memory: Path) -> None:
    lance.write_dataset(pa.table({"x": np.arange(1000)}), str(memory / "in"))
    (file,) = (memory / "in/data").glob("*.lance")
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(ValueError, match="in: fragment 0: it can't be read"):
        convert(memory / "in", memory / "out")
