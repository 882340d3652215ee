"""The transform that brings batches to a device."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from typing import Any

import torch

from loaderx.arguments import integer
from loaderx.torch.cuda import Cuda, Device
from loaderx.torch.pinned import Pool
from loaderx.torch.tensors import tensor
from loaderx.trees import mapped

PINNED_BYTES = 1 << 30
ALIGNMENT = 64
"""Of each array in a buffer; more than any dtype needs."""


class ToDevice:
    """See `to_device`."""

    def __init__(
        self, device: str | int | torch.device, pinned_bytes: int = PINNED_BYTES, stream: Any | None = None
    ) -> None:
        self.device = torch.device(device)
        if self.device == torch.device("cuda"):
            # Worker threads have a current device of their own, and it is the first one.
            self.device = torch.device("cuda", torch.cuda.current_device())
        self._pinned_bytes = integer(pinned_bytes, "pinned_bytes")
        self._stream = stream
        self._starting = threading.Lock()
        self._lane: Lane | None = None

    def __call__(self, batch: Any) -> Any:
        """The batch with tensors on the device in place of its arrays."""
        if self.device.type == "cpu":
            return mapped(batch, tensor)
        arrays: list[torch.Tensor] = []
        mapped(batch, lambda array, what: arrays.append(tensor(array, what)))
        moved = (
            iter(self._started().move(arrays))
            if self.device.type == "cuda"
            else iter([array.to(self.device) for array in arrays])
        )
        return mapped(batch, lambda array, what: next(moved))  # the same walk, so the same order

    def _started(self) -> Lane:
        """The lane, which the first batch makes: it has a stream and memory, and other processes must have their own."""
        with self._starting:
            if self._lane is None:
                self._lane = Lane(Cuda(self.device, self._stream), self._pinned_bytes)
            return self._lane

    def __repr__(self) -> str:
        return f"to_device({str(self.device)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._stream is not None:
            raise TypeError("a to_device with a stream does not pickle: the stream is this process's")
        return ToDevice, (str(self.device), self._pinned_bytes)


def to_device(
    device: str | int | torch.device, *, pinned_bytes: int = PINNED_BYTES, stream: Any | None = None
) -> ToDevice:
    """A transform: batch -> the same batch with tensors on `device` in place of its arrays.

    Dicts, lists, tuples and `Packed` keep their form, so a ragged stream becomes a list of tensors; numbers and strings stay.
    bfloat16 and float8 arrays of `ml_dtypes` become tensors of those dtypes.

    On "cpu" the tensors share the batch's memory; nothing is copied.

    On a GPU a batch goes through page-locked memory that is used again and is copied on a stream of its own, while other threads gather
    and the consumer computes. The worker thread waits for the copy, so what `next()` returns is there, for every stream. Tensors
    that are used on another stream than `stream` need the caller's own `tensor.record_stream(...)`, as always in torch.

    Args:
        device: as for `torch.device`. "cuda" is the current device of the thread that calls this.
        pinned_bytes: page-locked memory to use at most. A batch that gets none is copied from where it is, more slowly.
        stream: the `torch.cuda.Stream` that the tensors are used on. None: the device's default stream.

    Raises:
        RuntimeError: "cuda", and there is no GPU.
        TypeError: (by the transform) an array of a dtype that torch doesn't have; the message says which.
    """
    return ToDevice(device, pinned_bytes, stream)


class Lane:
    """The way to one device. Threads may share it: each has a buffer of its own while it is on it."""

    def __init__(self, device: Device, pinned_bytes: int) -> None:
        self.device = device
        self.pool = Pool(device.pinned, pinned_bytes)

    def move(self, arrays: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The arrays on the device, complete when this returns."""
        starts = places(arrays)
        buffer = self.pool.take(starts[-1]) if starts[-1] else None
        if buffer is None:
            tensors, done = self.device.copy(arrays)
            done.synchronize()
            return tensors
        try:
            staged = [into(buffer, start, array) for start, array in zip(starts, arrays, strict=False)]
            tensors, done = self.device.copy(staged)
            done.synchronize()
        except BaseException:
            self.pool.lose(buffer)
            raise
        self.pool.give(buffer)
        return tensors


def places(arrays: Sequence[torch.Tensor]) -> list[int]:
    """Where in a buffer each array begins, and where the last one ends."""
    sizes = [-(-array.numel() * array.element_size() // ALIGNMENT) * ALIGNMENT for array in arrays]
    return list(itertools.accumulate(sizes, initial=0))


def into(buffer: torch.Tensor, start: int, array: torch.Tensor) -> torch.Tensor:
    """Copy `array` into the buffer; returns the tensor that it is there."""
    size = array.numel() * array.element_size()
    there = buffer[start : start + size].view(array.dtype).view(array.shape)
    return there.copy_(array)
