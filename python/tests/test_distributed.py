"""Ranks under `torch.distributed`: real processes (gloo, on loopback), each with a loader that knows its rank from there.

`batch_size` is the global one: rank r of W has the places [floor(B r / W), floor(B (r + 1) / W)) of each batch of a world of one.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frameworks import framework, quick_processes
from loaderx.dataloader import DataLoader
from loaderx.dataset import MSDataset
from loaderx.utils import from_iterator, from_numpy

framework("torch.distributed")

import rank  # noqa: E402

pytestmark = pytest.mark.timeout(600)

COUNT = 60


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("ranks")
    from_numpy(root / "index", np.arange(COUNT))
    from_iterator(root / "token", (np.full(i % 5, i, np.int32) for i in range(COUNT)), np.int32)
    return root


def run(folder: Path, root: Path, world_size: int, **job: Any) -> list[dict[str, Any]]:
    """Start that many ranks and let them do the job; what each of them found."""
    folder.mkdir()
    (folder / "job").write_text(json.dumps({"root": str(root), "world_size": world_size} | job))
    ranks = [quick_processes().Process(target=rank.work, args=(folder, number)) for number in range(world_size)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(300)
    assert [process.exitcode for process in ranks] == [0] * world_size
    return [json.loads((folder / str(number)).read_text()) for number in range(world_size)]


def joined(found: list[dict[str, Any]]) -> list[list[int]]:
    """Each step's records, those of rank 0 first."""
    steps = zip(*(result["steps"] for result in found), strict=True)
    return [list(itertools.chain.from_iterable(parts)) for parts in steps]


def alone(root: Path, batch_size: int, count: int, **arguments: Any) -> list[list[int]]:
    """The same steps in a world of one."""
    arguments |= {"rank": 0, "world_size": 1}
    with (
        MSDataset(root, read_only=True) as ds,
        DataLoader(ds, batch_size=batch_size, **arguments) as loader,
    ):
        return [batch["index"].tolist() for batch in itertools.islice(loader, count)]


@pytest.mark.parametrize("world_size", [2, 3, 4])
@pytest.mark.parametrize("batch_size", [12, 10])
def test_ranks_share_the_global_batch(tmp_path: Path, root: Path, world_size: int, batch_size: int) -> None:
    """Over two cycles and a bit, also where the ranks' parts are not equally long."""
    cycle = COUNT // batch_size
    count = 2 * cycle + 1
    found = run(tmp_path / "run", root, world_size, batch_size=batch_size, steps=count)
    for number, result in enumerate(found):
        length = batch_size * (number + 1) // world_size - batch_size * number // world_size
        assert [len(step) for step in result["steps"]] == [length] * count
    steps = joined(found)
    assert steps == alone(root, batch_size, count)
    for first in (0, cycle):
        assert sorted(itertools.chain.from_iterable(steps[first : first + cycle])) == list(range(COUNT))


@pytest.mark.parametrize("mode", [0, 1])
def test_the_other_modes(tmp_path: Path, root: Path, mode: int) -> None:
    found = run(tmp_path / "run", root, 3, batch_size=8, steps=10, mode=mode)
    assert joined(found) == alone(root, 8, 10, mode=mode)


@pytest.mark.parametrize(("before", "after"), [(4, 2), (2, 3), (3, 1)])
def test_an_elastic_restart(tmp_path: Path, root: Path, before: int, after: int) -> None:
    """Another number of ranks goes on with the same global batches; a state of any rank will do."""
    first = run(tmp_path / "first", root, before, batch_size=10, steps=4)
    states = [result["state"] for result in first]
    assert all(state == states[0] for state in states)
    second = run(tmp_path / "second", root, after, batch_size=10, steps=7, state=states[-1])
    assert joined(first) + joined(second) == alone(root, 10, 11)


def test_a_rank_given_by_hand(tmp_path: Path, root: Path) -> None:
    """What `torch.distributed` says is the default, no more."""
    found = run(tmp_path / "run", root, 2, batch_size=10, steps=3, given={"rank": 0, "world_size": 1})
    assert [result["steps"] for result in found] == [alone(root, 10, 3)] * 2
