"""Arrays on the memory of batches own it, as any array of NumPy's owns its memory."""

from __future__ import annotations

import contextvars
import gc
import importlib
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loaderx import _core
from support import fork

Array = np.ndarray[Any, Any]

MIB = 1 << 20
SIZES = [0, 1, 7, 63, 64, 4096, 65_535, 65_536, 200_000, MIB - 1, MIB, MIB + 1, 2 * MIB, 3 * MIB + 5]
"""On both sides of where memory is used again, and of where it comes from elsewhere."""

multiarray = importlib.import_module("numpy.core.multiarray" if np.__version__ < "2" else "numpy._core.multiarray")
whose: Callable[[Array], str] = multiarray.get_handler_name


@pytest.fixture
def packed(tmp_path: Path) -> Callable[[int], Array]:
    """Packed batches of so many bytes, which are on the loader's own memory however small they are."""
    store = _core.Store.create(tmp_path / "packed", codec="raw")
    known: dict[int, int] = {}

    def batch(size: int) -> Array:
        if size not in known:
            known[size] = store.append_list([np.arange(size, dtype=np.uint8)])
        return store.gather_packed(np.array([known[size]], np.uint64))[0]

    return batch


def large(size: int) -> Array:
    return _core.empty((size,), np.dtype(np.uint8))


def expected(size: int) -> Array:
    return np.arange(size, dtype=np.uint8)


# Of text NumPy asks for zeroed memory, and so of structures with some.
@pytest.mark.parametrize("dtype", ["f4", "S4", "V4", ">U1", "M8[s]", [("a", "u1"), ("t", "<U2")], [("a", "u1", (3,))]])
@pytest.mark.parametrize("count", [1, 100_000])
def test_each_kind_of_dtype(dtype: Any, count: int) -> None:
    wanted = np.dtype(dtype)
    before = sys.getrefcount(wanted)
    array = _core.empty((count, 3), wanted)
    assert (array.dtype, array.shape, array.strides) == (wanted, (count, 3), (3 * wanted.itemsize, wanted.itemsize))
    assert array.flags.owndata
    assert array.flags.aligned
    array[...] = np.ones((), wanted)
    if array.nbytes >= MIB:
        assert whose(array) == "loaderx"
    del array
    assert sys.getrefcount(wanted) == before


@pytest.mark.parametrize("size", SIZES)
def test_flags(packed: Callable[[int], Array], size: int) -> None:
    for array in [packed(size), large(size)]:
        assert array.flags.owndata
        assert array.flags.writeable
        assert array.flags.c_contiguous
        assert array.flags.aligned
        assert array.base is None
        assert array.nbytes == size
        array.setflags(write=False)
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 1
        array.setflags(write=True)
        array[:] = 1
        assert (array == 1).all()
    batch = packed(size)
    assert batch.ctypes.data % 64 == 0
    assert whose(batch) == "loaderx"
    assert np.array_equal(batch, expected(size))


def test_all_that_comes_of_a_step(tmp_path: Path) -> None:
    dense, ragged = (_core.Store.create(tmp_path / name, codec="raw") for name in ("dense", "ragged"))
    dense.append_rows(np.arange(100.0).reshape(50, 2))
    shapes = np.zeros((50, 8), np.uint32)
    shapes[:, 0], shapes[:, 1] = 1, np.arange(50)
    ragged.append_list([np.zeros(i, np.uint8) for i in range(50)], shapes)
    rows = _core.Rows(dense, np.dtype(np.float64), (2,))
    draws = _core.Draws.mixed([50, 50], 8, 2, 1, [(0, [1.0, 1.0])])
    made = _core.Pipeline(_core.Gather(draws, [[rows, rows], [ragged, ragged]]), 0, 2, 4, 1 << 30).take(0, 30.0)
    assert made is not None
    assert made.error is None
    assert made.sources is not None
    for array in [made.indices, made.sources, made.streams[0], *made.streams[1], ragged.lengths(made.indices)]:
        assert array.flags.owndata
        assert array.flags.writeable


@pytest.mark.parametrize("dtype", ["S0", "U0", "V0"])
def test_elements_of_no_bytes(tmp_path: Path, dtype: str) -> None:
    """NumPy makes some of them a character long: such an array isn't put on memory that has no place for it."""
    store = _core.Store.create(tmp_path / "s", codec="raw")
    store.append_list([b""] * 10)
    gather = _core.Gather(_core.Draws.sampled(10, 8, 0, 0), [[_core.Rows(store, np.dtype(dtype), ())]])
    if dtype == "V0":
        assert gather.make(0).streams[0].shape == (8,)
    else:
        with pytest.raises(TypeError, match=f"no array of .{dtype}"):
            gather.make(0)
    assert np.array_equal(store.gather_packed(np.array([1], np.uint64))[0], [])


@pytest.mark.parametrize("before", [0, 100, 65_536, 2 * MIB])
@pytest.mark.parametrize("after", [1, 50, 70_000, 3 * MIB])
def test_resize(packed: Callable[[int], Array], before: int, after: int) -> None:
    array = packed(before)
    array.resize(after, refcheck=False)
    same = min(before, after)
    assert array.flags.owndata
    assert array.ctypes.data % 64 == 0
    assert np.array_equal(array[:same], expected(same))
    assert not array[same:].any()
    array.resize((5, 7), refcheck=False)
    array[:] = 3
    other = packed(before)
    assert np.array_equal(other, expected(before))
    assert (array == 3).all()


def test_more_than_there_is_changes_nothing(packed: Callable[[int], Array]) -> None:
    array = packed(2 * MIB)
    with pytest.raises(MemoryError):
        array.resize(1 << 60, refcheck=False)
    assert np.array_equal(array, expected(2 * MIB))


def test_a_changed_array_gives_back_what_it_had(packed: Callable[[int], Array]) -> None:
    for size in [4096, 2 * MIB]:
        for _ in range(20):
            array = packed(size)
            array.shape = (2, size // 2)
            state: Any = np.arange(5).__reduce__()[2]
            array.__setstate__(state)
            assert array.tolist() == [0, 1, 2, 3, 4]
            assert whose(array) != "loaderx"


def test_copies_and_exports(packed: Callable[[int], Array]) -> None:
    for size in [4096, 2 * MIB]:
        array = packed(size)
        assert np.array_equal(pickle.loads(pickle.dumps(array, protocol=5)), array)
        assert whose(array.copy()) != "loaderx"
        seen: list[Any] = [array.data, np.from_dlpack(array), array[1:].view(np.uint8), np.asarray(array)]
        place = array.ctypes.data
        del array
        others = [packed(size) for _ in range(4)]
        for other in others:
            other[:] = 1
        assert place not in [other.ctypes.data for other in others]
        assert all(np.array_equal(np.asarray(view), expected(size)[-len(view) :]) for view in seen)


def test_the_callers_own_arrays_are_left_alone(packed: Callable[[int], Array]) -> None:
    before = contextvars.copy_context()
    packed(2 * MIB)
    after = contextvars.copy_context()
    assert dict(after.items()) == dict(before.items())
    assert whose(np.empty(3)) == "default_allocator"


def test_more_arrays_than_are_ready_for(packed: Callable[[int], Array]) -> None:
    rng = np.random.default_rng(0)
    for size in [1000, 70_000, MIB + 1]:
        held = [packed(size) for _ in range(80)]
        assert len({array.ctypes.data for array in held}) == 80
        for number, array in enumerate(held):
            array[:] = number
        for place in rng.permutation(80)[:60]:
            assert (held[place] == place).all()
            held[place] = packed(size)
            assert np.array_equal(held[place], expected(size))


def test_arrays_that_end_in_other_threads(packed: Callable[[int], Array]) -> None:
    sizes = [100, 70_000, 2 * MIB]
    wrong: list[int] = []
    for size in sizes:
        packed(size)

    def life(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(150):
            size = sizes[rng.integers(3)]
            array = packed(size)
            if not np.array_equal(array, expected(size)):
                wrong.append(seed)
            array[:] = seed
            with lock:
                exchanged.append(array)
                other = exchanged.pop(rng.integers(len(exchanged))) if len(exchanged) > 12 else None
            if other is not None and other.size and (other != other[0]).any():
                wrong.append(seed)

    lock, exchanged = threading.Lock(), list[Array]()
    threads = [threading.Thread(target=life, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_memory_comes_back_whoever_frees_it() -> None:
    places = set()
    for _ in range(50):
        arrays = [large(2 * MIB)]
        places.add(arrays[0].ctypes.data)
        thread = threading.Thread(target=arrays.clear)
        thread.start()
        thread.join()
    assert len(places) <= 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child(packed: Callable[[int], Array]) -> None:
    sizes = [100, 70_000, 2 * MIB]
    mine = [packed(size) for size in sizes]
    child = fork()
    if child == 0:
        right = all(np.array_equal(array, expected(array.size)) for array in mine)
        mine[1].resize(2 * MIB, refcheck=False)
        mine.clear()
        for _ in range(3):
            right = right and all(np.array_equal(packed(size), expected(size)) for size in sizes)
        os._exit(int(not right))
    assert os.waitpid(child, 0)[1] == 0
    assert all(np.array_equal(array, expected(array.size)) for array in mine)


def test_arrays_of_others_on_our_handlers(packed: Callable[[int], Array]) -> None:
    """What a finalizer would make that runs while ours is NumPy's handler."""
    held = packed(2 * MIB)
    contexts = [found for found in gc.get_objects() if type(found) is contextvars.Context]
    ours = [found for found in contexts if whose(found.run(np.empty, 3)) == "loaderx"]
    assert ours
    for context in ours:
        for size in [1, 100, 2 * MIB]:
            arrays = [context.run(np.empty, size, np.uint8), context.run(np.zeros, size, np.uint8)]
            assert not arrays[1].any()
            for array in arrays:
                array[:] = 7
                array.resize(2 * size, refcheck=False)
                assert (array[:size] == 7).all()
                assert not array[size:].any()
    assert np.array_equal(held, expected(2 * MIB))


ENDS = """
import gc, sys, threading
import numpy as np
from loaderx import _core

class Cycle:
    def __init__(self, array):
        self.array, self.me = array, self

def arrays(count):
    return [_core.empty((1 << 21,), np.dtype(np.uint8)) for _ in range(count)]

gc.disable()
held = arrays(5)
cycles = [Cycle(array) for array in arrays(50)]
del cycles
gc.collect()
sys.held = arrays(3)
ends = [Cycle(array) for array in arrays(3)]
thread = threading.Thread(target=lambda: sys.held.extend(arrays(5)))
thread.start()
"""


def test_the_end_of_the_interpreter() -> None:
    done = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
