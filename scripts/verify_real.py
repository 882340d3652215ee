"""Store recorded data in each codec and read every record back, bit for bit.

    python scripts/verify_real.py --full        everything (`make verify-real`)
    python scripts/verify_real.py --sample      evenly spaced records, within three minutes

Each store is compared with the data that was put in, record by record: through the dataset, and through a DataLoader
beside a stream of indices, in each sampler mode, where every batch is compared at the indices that it declares itself.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from loaderx.dataloader import DataLoader
from loaderx.dataset import DenseDataset, RaggedDataset
from loaderx.sampler import Sampler
from loaderx.utils import from_iterator, from_numpy, train_dict
from real_data import SOURCES, Source
from real_data.debian import FetchError, fetch
from real_data.source import Records, byte_count

ROOT = Path(__file__).resolve().parent.parent
MIB = 1 << 20
CODECS = ("raw", "zstd", "zstd_dict")
MODES = {"sequential": 0, "iid": 1, "cyclic": 2}
# Bytes a store in --sample. A dictionary compresses at level 19, which is slow.
SAMPLE_LIMITS = {"raw": 48 * MIB, "zstd": 48 * MIB, "zstd_dict": 6 * MIB}
ROW = "{:<22}{:<11}{:>9}{:>9}{:>9}{:>7}{:>13}{:>14}{:>11}"
SCAN = 1024
SEED = 42

Dataset = DenseDataset | RaggedDataset


class MismatchError(Exception):
    """What was read is not what was written."""


class Row(NamedTuple):
    records: int
    raw: int
    stored: int
    write_seconds: float
    gather_rate: float
    verified: int


def main() -> None:
    parser = argparse.ArgumentParser(description="Store recorded data in each codec and read it back bit for bit.")
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument("--full", action="store_true", help="every record in every codec (the default)")
    extent.add_argument("--sample", action="store_true", help="evenly spaced records, within three minutes")
    parser.add_argument("--data", type=Path, default=ROOT / "data", help="where fetched data is kept")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "verify", help="where stores are written")
    options = parser.parse_args()
    try:
        verify_all(options.data, options.work, options.sample)
    except (FetchError, MismatchError) as error:
        sys.exit(f"\nverification failed: {error}")


def verify_all(data: Path, work: Path, sample: bool) -> None:
    started, total = time.perf_counter(), 0
    print(
        ROW.format("data", "codec", "records", "raw MiB", "stored", "ratio", "write MiB/s", "gather MiB/s", "verified")
    )
    for source in SOURCES:
        everything = source.load(fetch(source.package, data))
        for codec in CODECS:
            records = source.sample(everything, SAMPLE_LIMITS[codec] if sample else None)
            shutil.rmtree(work, ignore_errors=True)
            row = verify(source, records, codec, work)
            total += row.verified
            print(as_line(source.name, codec, row), flush=True)
    shutil.rmtree(work, ignore_errors=True)
    print(f"\nAll {total:,} records that were read equal what was written, bit for bit.")
    print("verified: read back through the dataset, and through a DataLoader in each of the three sampler modes.")
    print(f"{time.perf_counter() - started:.0f} s")


def as_line(name: str, codec: str, row: Row) -> str:
    raw, stored = row.raw / MIB, row.stored / MIB
    sizes = f"{row.records:,}", f"{raw:.1f}", f"{stored:.1f}", f"{raw / stored:.2f}"
    rates = f"{raw / row.write_seconds:,.0f}", f"{row.gather_rate:,.0f}"
    return ROW.format(name, codec, *sizes, *rates, f"{row.verified:,}")


def verify(source: Source, records: Records, codec: str, work: Path) -> Row:
    what = f"{source.name}, {codec}"
    seconds = write(work / "data", records, codec)
    from_numpy(work / "index", np.arange(len(records)), codec="raw")
    stored = sum(file.stat().st_size for file in (work / "data").iterdir())
    with open_dataset(work / "data", records) as dataset:
        verified = check_scan(dataset, records, what)
        rate = gather_rate(dataset, byte_count(records) / len(records), source.batch_size)
    for mode in MODES:
        verified += check_loader(work, records, source.batch_size, mode, what)
    return Row(len(records), byte_count(records), stored, seconds, rate, verified)


def write(path: Path, records: Records, codec: str) -> float:
    """Seconds that the writing took; training the dictionary is a step of its own and is not counted."""
    dictionary = train_dict(records) if codec == "zstd_dict" else None
    started = time.perf_counter()
    if isinstance(records, np.ndarray):
        from_numpy(path, records, codec=codec, dict_bytes=dictionary)
    else:
        from_iterator(path, iter(records), records[0].dtype, codec=codec, dict_bytes=dictionary)
    return time.perf_counter() - started


def open_dataset(path: Path, records: Records) -> Dataset:
    return DenseDataset(path) if isinstance(records, np.ndarray) else RaggedDataset(path)


def check_scan(dataset: Dataset, records: Records, what: str) -> int:
    """Every record once, in order, through the dataset."""
    if len(dataset) != len(records):
        raise MismatchError(f"{what}: the store holds {len(dataset)} records, {len(records)} were written")
    for start in range(0, len(records), SCAN):
        indices = np.arange(start, min(start + SCAN, len(records)))
        compare(dataset[indices], records, indices, f"{what}, through the dataset")
    return len(records)


def check_loader(work: Path, records: Records, batch_size: int, mode: str, what: str) -> int:
    """One pass in one sampler mode: each batch against the indices it declares, and those against the sampler."""
    batch_size = min(batch_size, len(records))
    steps = len(records) // batch_size
    seen: list[npt.NDArray[Any]] = []
    streams = {"data": open_dataset(work / "data", records), "index": DenseDataset(work / "index")}
    with DataLoader(streams, batch_size=batch_size, mode=MODES[mode], seed=SEED) as loader:
        for batch, expected in zip(loader, order(len(records), batch_size, mode, steps), strict=False):
            if not np.array_equal(batch["index"], expected):
                raise MismatchError(f"{what}: batch {len(seen)} of the {mode} loader is not the sampler's batch")
            compare(batch["data"], records, batch["index"], f"{what}, through the {mode} loader")
            seen.append(batch["index"])
            if len(seen) == steps:
                break
    drawn = np.concatenate(seen)
    if mode == "sequential" and not np.array_equal(drawn, np.arange(steps * batch_size)):
        raise MismatchError(f"{what}: the sequential loader does not walk in order")
    if mode == "cyclic" and len(np.unique(drawn)) != steps * batch_size:
        raise MismatchError(f"{what}: the cyclic loader drew a record twice within a cycle")
    return steps * batch_size


def order(length: int, batch_size: int, mode: str, steps: int) -> Iterator[npt.NDArray[Any]]:
    sampler = Sampler(length, batch_size, MODES[mode], SEED)
    for _ in range(steps):
        yield np.array(sampler.next())


def compare(
    got: npt.NDArray[Any] | list[npt.NDArray[Any]], records: Records, indices: npt.NDArray[Any], what: str
) -> None:
    if len(got) != len(indices):
        raise MismatchError(f"{what}: {len(got)} records came for {len(indices)} indices")
    if isinstance(records, np.ndarray):
        want = records[indices]
        if isinstance(got, np.ndarray) and same(got, want):
            return
    for one, index in zip(got, indices, strict=True):
        if not same(np.asarray(one), np.asarray(records[index])):
            raise MismatchError(f"{what}: record {index} differs from what was written")


def same(got: npt.NDArray[Any], want: npt.NDArray[Any]) -> bool:
    return got.dtype == want.dtype and got.shape == want.shape and got.tobytes() == want.tobytes()


def gather_rate(dataset: Dataset, record_bytes: float, batch_size: int, seconds: float = 0.5) -> float:
    """MiB/s of random batches: the median batch, page cache warm."""
    rng, times = np.random.default_rng(SEED), []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        indices = rng.integers(0, len(dataset), batch_size)
        started = time.perf_counter()
        dataset[indices]
        times.append(time.perf_counter() - started)
    return batch_size * record_bytes / MIB / float(np.median(times))


if __name__ == "__main__":
    main()
