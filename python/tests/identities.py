"""Three aligned streams whose records say which they are, children that die, and what must hold after that."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import support
from loaderx.dataset import DenseDataset, MSDataset, RaggedDataset
from support import Array, all_same, same

NAMES = ["dense", "ragged", "squeezed"]


def make(root: Path, ids: Sequence[int] = ()) -> Path:
    """Three empty streams, or with the records `ids`, synced."""
    DenseDataset(root / "dense", np.int64, (3,), "raw").close()
    DenseDataset(root / "squeezed", np.int32, (2, 8), "zstd").close()
    RaggedDataset(root / "ragged", np.int32).close()
    if ids:
        with MSDataset(root) as ds:
            ds.append(part(ids))
    return root


def part(ids: Sequence[int]) -> dict[str, Any]:
    """The records `ids` for each stream."""
    column = np.asarray(ids, np.int64)
    return {
        "dense": np.stack([column, column * column, -column], axis=1),
        "ragged": [ragged(i) for i in ids],
        "squeezed": np.repeat(column.astype(np.int32), 16).reshape(-1, 2, 8),
    }


def ragged(i: int) -> Array:
    shape = (1 + i % 5,) if i % 3 else (2, 1 + i % 4)
    return np.full(shape, i, np.int32)


def ids_of(ds: MSDataset) -> list[int]:
    """The records of a dataset, all of them read; each stream must hold the very same ones."""
    ids: list[int] = ds["dense"][:][:, 0].tolist()
    assert len(ids) == len(ds)
    for name, records in part(ids).items() if ids else ():
        found = ds[name][:]
        assert all_same(found, records) if name == "ragged" else same(found, records), name
    assert all(len(stream) == len(ids) for stream in ds.streams.values())
    return ids


def opened_ids(root: Path, **options: Any) -> list[int]:
    with MSDataset(root, **options) as ds:
        return ids_of(ds)


def leftovers(root: Path) -> list[str]:
    """Files that only a change under way may have."""
    return [str(p) for p in root.rglob("*") if p.name in ("pending.msgpack", "intent.zr") or p.suffix == ".tmp"]


def fork(work: Callable[[], Any]) -> int:
    """Run `work` in a child, which ends with status 0 after it, 1 after an exception; returns the child's id."""
    child = support.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:  # the parent sees the status, and pytest the text
            import traceback

            traceback.print_exc()
        finally:
            os._exit(status)
    return child


def die(*_: Any) -> None:
    """What a killed process does next."""
    os.kill(os.getpid(), signal.SIGKILL)


def dies(work: Callable[[], Any]) -> None:
    """Run `work` in a child, which must be killed by it."""
    assert support.ended(fork(work)) == -signal.SIGKILL


def dying(call: Callable[..., Any], before: int) -> Callable[..., Any]:
    """`call`, but the process dies instead of the call number `before`, counted from 0."""
    calls = iter(range(before))

    def step(*arguments: Any, **options: Any) -> Any:
        if next(calls, None) is None:
            die()
        return call(*arguments, **options)

    return step
