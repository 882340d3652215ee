"""Transforms that worker processes can import, and what fails in them."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np


class TwoArguments(Exception):
    """As in many a library: it can't be made from its own `args`."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")
        self.first = first


class Rewording(Exception):
    """Can be made from its own `args`, but not the same again."""

    def __init__(self, what: str) -> None:
        super().__init__(f"bad {what}")


class Unpicklable(Exception):
    """Holds what never pickles."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.held = lambda: None


class Nothing(BaseException):
    __slots__ = ()


def plain(batch: Any) -> Any:
    return batch


def noisy(batch: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Adds random numbers, and takes a time so that workers overtake one another."""
    time.sleep(rng.random() / 5000)
    return batch | {"noise": rng.random(3)}


def marked(batch: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Adds two random numbers that JSON has."""
    return {"index": batch["index"], "noise": rng.integers(0, 2**32, 2)}


def at(bad: list[int], then: Callable[[], Any], batch: Any) -> Any:
    """Does something else at one batch."""
    return then() if batch["index"].tolist() == bad else batch


def fail(error: Callable[[], BaseException]) -> Any:
    raise error()  # the user's line


def exhaust() -> Any:
    """More memory than there is; NumPy raises an error of its own type."""
    return np.empty(1 << 60, np.uint8)


def die(how: str) -> Any:
    if how == "exit":
        os._exit(3)
    if how == "fault":
        ctypes.string_at(0)
    os.kill(os.getpid(), getattr(signal, how))
    time.sleep(60)


def dies(bad: list[int], how: str) -> Callable[[Any], Any]:
    return partial(at, bad, partial(die, how))


def fails(bad: list[int], error: Callable[..., BaseException], *arguments: Any) -> Callable[[Any], Any]:
    return partial(at, bad, partial(fail, partial(error, *arguments)))


def sleep(seconds: float, batch: Any) -> Any:
    """In many small steps, so that it is Python that is interrupted."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.001)
    return batch


def hold_interpreter(batch: Any) -> Any:
    ctypes.PyDLL(None).sleep(3600)
    return batch


def wait_for(path: str, batch: Any) -> Any:
    while not os.path.exists(path):  # noqa: PTH110 - as light as can be
        time.sleep(0.005)
    return batch


def wait_at(slow: list[int], path: str, batch: Any) -> Any:
    return wait_for(path, batch) if batch["index"].tolist() == slow else batch


def give(value: Any, batch: Any) -> Any:
    return value


def tensors(batch: Any) -> Any:
    import torch

    index = torch.from_numpy(batch["index"])
    return {
        "index": index,
        "strided": index[::2],
        "again": index,
        "gradient": torch.ones(3, requires_grad=True),
        "bfloat16": torch.ones(3, dtype=torch.bfloat16),
        "scalar": torch.tensor(2.5),
    }


def who(batch: Any) -> Any:
    return os.getpid(), batch["index"]


def tell(batch: Any) -> Any:
    sys.stdout.write(f"made {batch['index'].tolist()}\n")
    return batch


def refuse(batch: Any) -> Any:
    return lambda: batch


class Opaque:
    """Pickles, but can't be made again where `loaderx_worker` is not set."""

    def __reduce__(self) -> Any:
        return must_be_worker, (os.getpid(),)


def must_be_worker(pid: int) -> Any:
    if os.getpid() != pid:
        raise ValueError("only there")
    return Opaque()


def opaque(batch: Any) -> Any:
    return Opaque()


def grown(batch: Any) -> Any:
    """Batches whose size depends on the step, small and large."""
    first = int(batch["index"][0])
    return np.full((1 + first * first * 997, 3), first)


def shapes(batch: Any) -> Any:
    """One of everything."""
    index = batch["index"]
    table = np.arange(24).reshape(4, 6)
    frozen = np.arange(5.0)
    frozen.flags.writeable = False
    return {
        "same": (index, index),
        "strided": table[::2, ::-1],
        "fortran": np.asfortranarray(table),
        "transposed": table.T,
        "zero-d": np.array(7, np.int16),
        "empty": np.empty((0, 3), np.float32),
        "frozen": frozen,
        "object": np.array(["a", None, [1]], object),
        "text": np.array(["ab", "c"]),
        "bytes": np.array([b"ab", b"c"]),
        "time": np.array(["2020-01-01", "2021-01-01"], "M8[D]"),
        "record": np.zeros(3, [("a", "i4"), ("b", "f8", (2,))]),
        "swapped": np.arange(3, dtype=">i4"),
        "bool": np.array([True, False]),
        "scalar": np.float32(2.5),
        "masked": np.ma.masked_array([1, 2], [True, False]),
        "blob": b"x" * 1000,
        "buffer": bytearray(b"y" * 10),
        "nested": [({"deep": [index + 1]}, None, ...), "text", 3, 2.5, True],
    }


class Large:
    """A stream of long records that no store has. Reading a batch leaves a file, where there is a directory."""

    def __init__(self, length: int, size: int, directory: str | None) -> None:
        self.length, self.size, self.directory = length, size, directory

    def __len__(self) -> int:
        return self.length

    def __getitems__(self, indices: Any) -> Any:
        if self.directory is not None:
            leave(self.directory, None)
        return [np.zeros(self.size, np.uint8) for _ in indices]


def leave(directory: str, batch: Any) -> Any:
    """A file in the directory."""
    os.close(os.open(f"{directory}/{time.monotonic_ns()}-{os.getpid()}", os.O_CREAT))
    return batch
