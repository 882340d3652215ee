"""Our datasets as grain's data sources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frameworks import framework
from loaderx.dataset import DenseDataset, MSDataset, RaggedDataset
from loaderx.grain import Source
from streams import COUNT, IMAGES, TOKENS
from support import same

grain = framework("grain")
flags = framework("absl.flags")

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    # Its shared arrays are unlinked twice when they are collected.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module", autouse=True)
def parsed_flags() -> None:
    """grain's processes ask for command line flags, which the program that uses grain has parsed."""
    flags.FLAGS.mark_as_parsed()


def right(record: Any, number: int) -> bool:
    return (
        list(record) == ["image", "index", "token"]
        and same(record["image"], IMAGES[number])
        and same(record["token"], TOKENS[number])
    )


def test_sources(stream_root: Path) -> None:
    with (
        DenseDataset(stream_root / "image", read_only=True) as dense,
        RaggedDataset(stream_root / "token", read_only=True) as ragged,
        MSDataset(stream_root, read_only=True) as streams,
    ):
        for source in (dense, ragged, Source(streams)):
            assert isinstance(source, grain.sources.RandomAccessDataSource)
            assert len(source) == COUNT
            dataset = grain.MapDataset.source(source)
            assert len(list(dataset)) == COUNT
        assert all(right(record, i) for i, record in enumerate(grain.MapDataset.source(Source(streams))))
        records = list(grain.MapDataset.source(dense).shuffle(seed=5))
        assert sorted(int(record[0, 0]) // 6 for record in records) == list(range(COUNT))


def test_batches_of_a_map_dataset(stream_root: Path) -> None:
    with MSDataset(stream_root, names=["image", "index"], read_only=True) as streams:
        dataset = grain.MapDataset.source(Source(streams)).shuffle(seed=1).repeat().batch(batch_size=4)
        for i in range(20):
            batch = dataset[i]
            assert same(batch["image"], IMAGES[batch["index"]])


@pytest.mark.parametrize("workers", [0, 2])
def test_a_data_loader(stream_root: Path, workers: int) -> None:
    """In worker processes too: each opens the stores for itself."""
    with MSDataset(stream_root, read_only=True) as streams:
        source = Source(streams)
        sampler = grain.samplers.IndexSampler(COUNT, shuffle=True, seed=3, num_epochs=2)
        loader = grain.DataLoader(data_source=source, sampler=sampler, worker_count=workers)
        records = list(loader)
    numbers = [int(record["index"]) for record in records]
    assert sorted(numbers) == sorted([*range(COUNT), *range(COUNT)])
    assert all(right(record, number) for record, number in zip(records, numbers, strict=True))


def test_negative_and_missing_records(stream_root: Path) -> None:
    with MSDataset(stream_root, read_only=True) as streams:
        source = Source(streams)
        assert right(source[-1], COUNT - 1)
        assert right(source[np.int64(2)], 2)
        with pytest.raises(IndexError):
            source[COUNT]
        assert repr(source) == f"Source(streams=['image', 'index', 'token'], len={COUNT})"


def test_streams_that_do_not_belong_together() -> None:
    for streams in ({}, {"a": [1], "b": []}):
        with pytest.raises(ValueError, match="equally many"):
            Source(streams)
