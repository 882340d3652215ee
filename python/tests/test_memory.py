"""Memory of large batches: used again when nobody sees it any more, and not before."""

from __future__ import annotations

import gc
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from loaderx import _core
from loaderx.dataset import DenseDataset
from loaderx.utils import from_numpy
from support import fork

LARGE = 3 << 20
"""More than what the allocator is left to keep at hand."""


def new_bytes(length: int) -> np.ndarray:
    return _core.empty((length,), np.dtype(np.uint8))


@pytest.mark.parametrize("dtype", ["u1", "<i4", ">f8", "M8[ns]", "S3", "c16", "?"])
def test_an_array_like_any_other(dtype: str) -> None:
    found = np.dtype(dtype)
    array = _core.empty((LARGE, 2), found)
    assert (array.shape, array.dtype) == ((LARGE, 2), found)
    assert array.flags.writeable
    assert array.flags.c_contiguous
    assert array.ctypes.data % 64 == 0
    array[:] = np.zeros((), found)
    assert (array == np.zeros((), found)).all()
    assert _core.empty((3, 2), found).shape == (3, 2)


def test_memory_is_used_again_only_when_its_last_view_is_gone() -> None:
    first = new_bytes(LARGE)
    place = first.ctypes.data
    view = first.view(np.uint16).reshape(-1, 2)[5:7]
    view[:] = 99
    del first
    others = [new_bytes(LARGE) for _ in range(4)]
    assert place not in [other.ctypes.data for other in others]
    for other in others:
        other[:] = 1
    assert (view == 99).all()
    del view, other, others
    gc.collect()
    kept = {new_bytes(LARGE).ctypes.data for _ in range(6)}
    assert len(kept) <= 2


def test_batches_that_are_alive_never_share_memory(tmp_path: Path) -> None:
    rows = np.arange(400 * 20_000, dtype=np.uint32).reshape(400, 20_000)
    from_numpy(tmp_path / "s", rows, codec="raw")
    wrong: list[int] = []

    def read(seed: int) -> None:
        rng = np.random.default_rng(seed)
        held: list[tuple[np.ndarray, np.ndarray]] = []
        with DenseDataset(tmp_path / "s") as dataset:
            for _ in range(30):
                index = rng.integers(0, 400, 32)
                held.append((index, dataset[index]))
                held = held[-3:]
                wrong.extend(1 for index, batch in held if not np.array_equal(batch, rows[index]))

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_has_memory_of_its_own() -> None:
    del (_ := [new_bytes(LARGE)])[:]
    mine = new_bytes(LARGE)
    mine[:] = 5
    child = fork()
    if child == 0:
        theirs = new_bytes(LARGE)
        theirs[:] = 6
        mine[:] = 7
        os._exit(int(not (theirs == 6).all()))
    assert os.waitpid(child, 0)[1] == 0
    assert (mine == 5).all()


def test_no_array_of_references() -> None:
    for shape in [(3,), (LARGE,)]:
        with pytest.raises(TypeError, match="holds references"):
            _core.empty(shape, np.dtype(object))


@pytest.mark.parametrize("length", [2**62, 2**63])
def test_more_than_there_is(length: int) -> None:
    with pytest.raises(MemoryError):
        new_bytes(length)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="tells memory by /proc")
def test_what_nobody_uses_any_more_goes_back_to_the_system() -> None:
    def resident() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon"))

    size = 96 << 20
    for _ in range(20):
        array = new_bytes(size)
        array[:] = 1
        held = resident()
        begun = time.monotonic()
        del array
        left = resident()
        # It is kept for two seconds, and a busy machine can take longer from one line to the next.
        if time.monotonic() - begun < 1:
            break
    else:
        pytest.skip("the machine is too busy to tell")
    assert left > held - size // 2, "the block is kept for the next batch"
    deadline = time.monotonic() + 60
    while resident() > held - size * 9 // 10:
        assert time.monotonic() < deadline, "the block is kept for ever"
        time.sleep(0.1)
    names = [thread.read_text().strip() for thread in Path("/proc/self/task").glob("*/comm")]
    while "loaderx-memory" in names:
        assert time.monotonic() < deadline, "the thread that gave it back is still there"
        time.sleep(0.1)
        names = [thread.read_text().strip() for thread in Path("/proc/self/task").glob("*/comm")]
