"""Random changes: datasets equal a plain list of records whose deletion moves the last record into the hole."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from loaderx.dataset import DenseDataset, RaggedDataset
from support import all_same, swap_last


class Changes(RuleBasedStateMachine):
    """Shared by both kinds; a subclass makes records and opens its dataset."""

    codec = "raw"

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.records: list[Any] = []
        self.seed = 0

    @initialize(codec=st.sampled_from(["raw", "zstd"]))
    def create(self, codec: str) -> None:
        self.codec = codec
        self.ds = self.open(new=True)

    def open(self, new: bool = False) -> Any:
        raise NotImplementedError

    def make(self, count: int) -> list[Any]:
        raise NotImplementedError

    @rule(count=st.integers(1, 9))
    def append(self, count: int) -> None:
        self.seed += 1
        records = self.make(count)
        assert self.ds.append(self.container(records)) == len(self.records)
        self.records += records

    def container(self, records: list[Any]) -> Any:
        return records

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        n = len(self.records)
        indices = data.draw(st.lists(st.integers(-n, n - 1), max_size=6)) if n else []
        self.ds.delete(indices)
        self.records = swap_last(self.records, [i % n for i in indices])

    @rule()
    def compact(self) -> None:
        self.ds.compact()

    @rule(read_only=st.booleans())
    def reopen(self, read_only: bool) -> None:
        self.ds.close()
        self.ds = self.open()

    @rule()
    def read_beside(self) -> None:
        with self.open() as other:
            assert all_same(other[:], self.records)

    @rule(data=st.data())
    def gather(self, data: st.DataObject) -> None:
        n = len(self.records)
        indices = data.draw(st.lists(st.integers(-n, n - 1), max_size=9)) if n else []
        assert all_same(self.ds[indices], [self.records[i] for i in indices])

    @invariant()
    def equals_the_list(self) -> None:
        assert len(self.ds) == len(self.records)
        assert self.ds.stats()["records"] == len(self.records)
        assert all_same(list(self.ds[:]), self.records)

    def teardown(self) -> None:
        if hasattr(self, "ds"):
            self.ds.close()
        shutil.rmtree(self.folder)


class DenseChanges(Changes):
    def open(self, new: bool = False) -> Any:
        declared: dict[str, Any] = {"dtype": "<i2", "item_shape": (3, 2), "codec": self.codec} if new else {}
        return DenseDataset(self.folder / "ds", **declared)

    def make(self, count: int) -> list[Any]:
        return list(np.random.default_rng(self.seed).integers(-5, 5, (count, 3, 2)).astype("<i2"))

    def container(self, records: list[Any]) -> Any:
        return np.stack(records)


class RaggedChanges(Changes):
    def open(self, new: bool = False) -> Any:
        declared: dict[str, Any] = {"dtype": "<i2", "codec": self.codec} if new else {}
        return RaggedDataset(self.folder / "ds", **declared)

    def make(self, count: int) -> list[Any]:
        rng = np.random.default_rng(self.seed)
        ranks = rng.integers(0, 4, count) if self.seed % 2 else np.ones(count, int)
        return [rng.integers(-5, 5, tuple(rng.integers(0, 4, rank))).astype("<i2") for rank in ranks]


@pytest.mark.parametrize("machine", [DenseChanges, RaggedChanges])
def test_changes(machine: type[Changes]) -> None:
    case: Any = machine.TestCase
    case.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)
    case().runTest()
