"""What a transfer needs of CUDA, in the documented calls of torch and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch


class Done(Protocol):
    """Something on the device that can be waited for: a `torch.cuda.Event`."""

    def synchronize(self) -> None:
        """Wait until it has happened."""


class Device(Protocol):
    """The other end of a transfer. `Cuda` is the real one; tests have one that needs no GPU."""

    def pinned(self, size: int) -> torch.Tensor:
        """A new buffer of page-locked memory, uint8, shape (size,)."""
        ...

    def copy(self, sources: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], Done]:
        """Begin to copy; the tensors on the device, and when they hold what the sources hold. Until then the sources must not change."""
        ...


class Cuda:
    """A CUDA device with a stream of its own for copies.

    The caching allocator gives a tensor's memory back to the stream that it was allocated on, here the one of the copies, as soon
    as the tensor dies, when kernels of the consumer may still be waiting to read it. `record_stream` makes it wait for those.

    Args:
        device: the device.
        consumer: the stream that uses the tensors.
    """

    def __init__(self, device: torch.device, consumer: Any | None) -> None:
        self._device = device
        self._copies = torch.cuda.Stream(device)
        self._consumer = torch.cuda.default_stream(device) if consumer is None else consumer

    def pinned(self, size: int) -> torch.Tensor:
        """See `Device`."""
        return torch.empty(size, dtype=torch.uint8, pin_memory=True)

    def copy(self, sources: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], Done]:
        """See `Device`. Sources that are not pinned are fine, and slower."""
        with torch.cuda.stream(self._copies):
            tensors = [source.to(self._device, non_blocking=True) for source in sources]
            done = torch.cuda.Event(blocking=True)  # a thread that waits for it leaves its core to others
            done.record(self._copies)
        for tensor in tensors:
            tensor.record_stream(self._consumer)
        return tensors, done
