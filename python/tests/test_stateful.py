"""A loader inside torchdata's StatefulDataLoader: saved anywhere, it goes on at the same batch."""

from __future__ import annotations

import functools
import itertools
import pickle
from pathlib import Path
from typing import Any

import pytest
from frameworks import framework
from loaderx.dataloader import DataLoader
from loaderx.dataset import MSDataset
from streams import IMAGES, TOKENS, unbroken
from support import all_same, same

torch = framework("torch")
StatefulDataLoader = framework("torchdata.stateful_dataloader").StatefulDataLoader

from loaderx.torch import IterableLoader  # noqa: E402

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


def make(root: Path, seed: int = 42) -> DataLoader:
    """A loader in whatever process this is; it pickles as a factory."""
    return DataLoader(MSDataset(root, read_only=True), num_workers=2, batch_size=5, seed=seed)


def stateful(root: Path, workers: int, step: int = 0, seed: int = 42) -> Any:
    context = "fork" if workers else None
    dataset = IterableLoader(functools.partial(make, root, seed), step)
    return StatefulDataLoader(dataset, batch_size=None, num_workers=workers, multiprocessing_context=context)


def checked(batch: Any) -> list[int]:
    """The numbers of a batch that holds the right records."""
    numbers: list[int] = batch["index"].tolist()
    assert same(batch["image"].numpy(), IMAGES[numbers])
    assert all_same([record.numpy() for record in batch["token"]], [TOKENS[i] for i in numbers])
    return numbers


def take(batches: Any, count: int) -> list[list[int]]:
    return [checked(batch) for batch in itertools.islice(batches, count)]


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_resumes_exactly(stream_root: Path, workers: int) -> None:
    whole = stateful(stream_root, workers)
    batches = iter(whole)
    for before, after in ((0, 1), (1, 5), (5, 7)):
        assert take(batches, after - before) == unbroken(after)[before:]
        resumed = stateful(stream_root, workers)
        resumed.load_state_dict(whole.state_dict())
        assert take(resumed, 7) == unbroken(after + 7)[after:]


def test_a_first_step(stream_root: Path) -> None:
    for workers in (0, 2):
        assert take(stateful(stream_root, workers, step=6), 3) == unbroken(9)[6:]
    dataset = IterableLoader(functools.partial(make, stream_root))
    dataset.seek(4)
    assert [batch["index"].tolist() for batch in itertools.islice(dataset, 2)] == unbroken(6)[4:]
    with pytest.raises(ValueError, match="step"):
        dataset.seek(-1)


def test_a_state_of_another_loader_is_refused(stream_root: Path) -> None:
    one = stateful(stream_root, 0)
    take(iter(one), 2)
    other = stateful(stream_root, 0, seed=1)
    other.load_state_dict(one.state_dict())
    with pytest.raises(ValueError, match="seed"):
        next(iter(other))


def test_under_torchs_own_loader(stream_root: Path) -> None:
    dataset = IterableLoader(functools.partial(make, stream_root))
    for workers in (0, 2):
        assert take(torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=workers), 6) == unbroken(6)


def test_it_pickles_for_workers_that_are_not_forked(stream_root: Path) -> None:
    dataset = IterableLoader(functools.partial(make, stream_root), step=3)
    copy = pickle.loads(pickle.dumps(dataset))
    assert [batch["index"].tolist() for batch in itertools.islice(copy, 2)] == unbroken(5)[3:]
