"""Datasets under PyTorch's own DataLoader."""

from __future__ import annotations

import itertools
import multiprocessing
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frameworks import framework, quick_processes
from loaderx.dataloader import DataLoader
from loaderx.dataset import DenseDataset, MSDataset
from loaderx.utils import from_iterator, from_numpy
from support import all_same, same

torch = framework("torch")
data = framework("torch.utils.data")

pytestmark = [
    pytest.mark.timeout(600),
    # More workers than cores, and fork with threads, are what is tested.
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]

COUNT, BATCH, EPOCHS = 100, 8, 3
METHODS = multiprocessing.get_all_start_methods()
quick_processes()
# The first number of a record says which one it is.
ROWS = np.arange(COUNT * 12, dtype=np.float32).reshape(COUNT, 3, 4)
TOKENS = [np.full(1 + i % 7, i, np.int32) for i in range(COUNT)]


class Streams:
    """The streams of an MSDataset as a map-style dataset: what a user writes."""

    def __init__(self, streams: dict[str, Any]) -> None:
        self.streams = streams

    def __len__(self) -> int:
        return len(self.streams["index"])

    def __getitems__(self, indices: list[int]) -> dict[str, Any]:
        return {name: stream[indices] for name, stream in self.streams.items()}


def as_tensors(batch: Any) -> Any:
    """A collate function for record sets: arrays share their memory with the tensors, ragged records stay a list."""
    if isinstance(batch, dict):
        return {name: as_tensors(values) for name, values in batch.items()}
    return torch.from_numpy(batch) if isinstance(batch, np.ndarray) else [torch.from_numpy(record) for record in batch]


def padded(batch: list[Any]) -> Any:
    return torch.nn.utils.rnn.pad_sequence(as_tensors(batch), batch_first=True, padding_value=-1)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("torch")
    from_numpy(root / "image", ROWS)
    from_numpy(root / "index", np.arange(COUNT), "raw")
    from_iterator(root / "token", TOKENS, np.int32)
    return root


@pytest.fixture
def streams(root: Path) -> Iterator[dict[str, Any]]:
    """Datasets that were read from in this process, so that whatever threads and maps they have exist."""
    with MSDataset(root, read_only=True) as ds:
        streams = ds.streams
        assert same(streams["image"][:], ROWS)
        assert all_same(streams["token"][:], TOKENS)
        assert streams["index"][:].tolist() == list(range(COUNT))
        yield streams


def loader(dataset: Any, method: str, collate: Any = None) -> Any:
    return data.DataLoader(
        dataset,
        batch_size=BATCH,
        shuffle=True,
        generator=torch.Generator().manual_seed(7),
        num_workers=2,
        collate_fn=collate,
        multiprocessing_context=method,
        persistent_workers=True,
        timeout=300,
    )


def orders(batches: Any, numbers: Any) -> list[list[int]]:
    """The order of each epoch, where `numbers` checks a batch and says which records it holds; each record comes once an epoch."""
    found = [[int(number) for batch in batches for number in numbers(batch)] for _ in range(EPOCHS)]
    assert all(sorted(order) == list(range(COUNT)) for order in found)
    assert len({tuple(order) for order in found}) == EPOCHS
    return found


def of_rows(batch: Any) -> list[int]:
    assert isinstance(batch, torch.Tensor)
    numbers = [int(first) // 12 for first in batch[:, 0, 0]]
    assert same(batch.numpy(), ROWS[numbers])
    return numbers


def of_padded(batch: Any) -> list[int]:
    numbers = [int(row[0]) for row in batch]
    for row, number in zip(batch, numbers, strict=True):
        assert row.tolist() == TOKENS[number].tolist() + [-1] * (batch.shape[1] - len(TOKENS[number]))
    return numbers


def of_streams(batch: Any) -> list[int]:
    numbers = [int(number) for number in batch["index"]]
    assert same(batch["image"].numpy(), ROWS[numbers])
    assert all_same([record.numpy() for record in batch["token"]], [TOKENS[i] for i in numbers])
    return numbers


@pytest.mark.parametrize("method", METHODS)
def test_dense(streams: Any, method: str) -> None:
    """With torch's own collate."""
    orders(loader(streams["image"], method), of_rows)


@pytest.mark.parametrize("method", METHODS)
def test_ragged(streams: Any, method: str) -> None:
    orders(loader(streams["token"], method, padded), of_padded)


@pytest.mark.parametrize("method", METHODS)
def test_several_streams(streams: Any, method: str) -> None:
    orders(loader(Streams(streams), method, as_tensors), of_streams)


def test_a_dataset_that_nobody_has_read_yet(root: Path) -> None:
    with DenseDataset(root / "image") as ds:
        orders(loader(ds, "fork"), of_rows)


def test_the_order_is_that_of_torch(streams: Any) -> None:
    """Workers or none, a seed gives one order."""
    alone = data.DataLoader(
        streams["image"], batch_size=BATCH, shuffle=True, generator=torch.Generator().manual_seed(7)
    )
    # Only the first epoch: workers that stay draw their own seed from the same generator once, others each time.
    assert orders(alone, of_rows)[0] == orders(loader(streams["image"], "fork"), of_rows)[0]


class Counted(DenseDataset):
    """Counts what torch calls."""

    sets = 0
    singles = 0

    def __getitems__(self, index: Any) -> Any:
        self.sets += 1
        return super().__getitems__(index)

    def _record(self, index: int) -> Any:
        self.singles += 1
        return super()._record(index)


def test_a_batch_is_one_call(root: Path) -> None:
    """torch 2 fetches a batch by `__getitems__`."""
    with Counted(root / "image") as ds:
        orders(data.DataLoader(ds, batch_size=BATCH, shuffle=True), of_rows)
        assert ds.sets == EPOCHS * -(-COUNT // BATCH)
        assert ds.singles == 0


def test_other_ways_that_torch_takes_a_dataset(streams: Any) -> None:
    image = streams["image"]
    assert same(torch.stack(list(data.DataLoader(image, batch_size=None))).numpy(), ROWS)
    subset = data.Subset(image, [5, 3, 99])
    assert same(next(iter(data.DataLoader(subset, batch_size=3))).numpy(), ROWS[[5, 3, 99]])
    both = data.ConcatDataset([image, image])
    assert same(next(iter(data.DataLoader(both, batch_sampler=[[0, 150]]))).numpy(), ROWS[[0, 50]])
    one, other = data.random_split(image, [60, 40], generator=torch.Generator().manual_seed(1))
    assert sorted([*one.indices, *other.indices]) == list(range(COUNT))
    assert same(next(iter(data.DataLoader(other, batch_size=40))).numpy(), ROWS[other.indices])


@pytest.mark.parametrize("dtype", ["u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "?", "c8"])
@pytest.mark.parametrize("shape", [(), (3,), (0, 2)])
def test_default_collate_of_every_dtype(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    rows = (np.arange(10 * int(np.prod(shape))) % 2).astype(dtype).reshape(10, *shape)
    from_numpy(tmp_path / "s", rows)
    with DenseDataset(tmp_path / "s") as ds:
        batches = list(data.DataLoader(ds, batch_size=4))
        assert same(torch.cat(batches).numpy(), rows)


@pytest.mark.filterwarnings("error")
def test_batches_belong_to_whoever_reads_them(streams: Any) -> None:
    """No warning about memory that may not be written to, and what is written there reaches no store."""
    for batch in (
        streams["image"][[3, 4]],
        streams["image"][3],
        streams["image"].__getitems__([3]),
        streams["token"][9],
    ):
        tensor = torch.from_numpy(batch)
        tensor += 1
        assert same(tensor.numpy(), batch)
    with DataLoader(streams, batch_size=BATCH) as endless:
        for batch in itertools.islice(endless, 20):
            tensors = as_tensors(batch)
            of_streams(tensors)
            tensors["image"].zero_()
            assert not batch["image"].any()
    assert same(streams["image"][:], ROWS)


def test_a_loader_of_ours_beside_one_of_torch(streams: Any) -> None:
    """The threads of ours are alive when torch forks its workers."""
    with (
        DataLoader(streams, batch_size=BATCH, seed=3) as endless,
        DataLoader(streams, batch_size=BATCH, seed=3) as twin,
    ):
        for _ in range(2):
            batches = loader(streams["image"], "fork")
            for ours, theirs in zip(endless, batches, strict=False):
                of_rows(theirs)
                assert same(ours["index"], next(twin)["index"])
            next(twin)  # the one that zip took from ours at the end


def test_pickles_of_what_torch_sends(streams: Any) -> None:
    with pickle.loads(pickle.dumps(streams["image"])) as copy:
        assert same(copy[:], ROWS)
    assert len(pickle.dumps(Streams(streams))) < 4096


@pytest.mark.filterwarnings("ignore:Got pickle error")
@pytest.mark.parametrize("method", METHODS)
def test_a_writer_is_refused_or_harmless(tmp_path: Path, method: str) -> None:
    """Under fork the workers have the parent's handle, and read; elsewhere it would have to be pickled."""
    with DenseDataset(tmp_path / "s", dtype=np.float32, item_shape=(3, 4)) as ds:
        ds.append(ROWS)
        if method == "fork":
            orders(loader(ds, method), of_rows)
        else:
            with pytest.raises(TypeError, match="cannot pickle this DenseDataset: it has written to"):
                iter(loader(ds, method))
        assert ds.append(ROWS[:1]) == COUNT
