"""A result as bytes in a slot: its arrays, each at a multiple of 64, then the tail, which says what the result is made of.

    tail = number of parts, (offset, length) of each, a pickle of everything around them

An array is copied once, from wherever the worker has it, strides and all, and is C-contiguous, aligned and writable where it arrives.
So is a tensor of PyTorch's in the CPU's memory. Arrays of Python objects, subclasses of arrays and everything else are part of the
pickle; objects that pickle with buffers out of band (PEP 574) get them in place, too.
"""

from __future__ import annotations

import io
import pickle
import struct
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from loaderx.dataset.dtypes import opaque

ALIGNMENT = 64
COUNT = struct.Struct("<Q")
PART = struct.Struct("<QQ")


class Pickler(pickle.Pickler):
    """Pickles all but arrays, of which it only says that they are parts.

    The parts come to `parts` in order. No attribute leads back to the pickler: a cycle would keep arrays until a collection.
    """

    def __init__(self, file: io.BytesIO, parts: list[npt.NDArray[Any] | memoryview]) -> None:
        self._arrays = arrays = dict[int, npt.NDArray[Any]]()

        def put_aside(buffer: pickle.PickleBuffer) -> None:
            array = arrays.pop(id(buffer), None)
            parts.append(buffer.raw() if array is None else array)

        super().__init__(file, 5, buffer_callback=put_aside)

    def reducer_override(self, obj: Any) -> Any:
        """Let an array be a part, without its bytes being touched yet."""
        if type(obj).__module__ == "torch" and (array := array_of(obj)) is not None:
            return tensor_on, (array,)
        if type(obj) is not np.ndarray or obj.dtype.hasobject or not obj.dtype.itemsize:
            return NotImplemented
        # What stands for it is writable, as the array on the other side shall be even where this one isn't.
        stand_in = pickle.PickleBuffer(bytearray())
        self._arrays[id(stand_in)] = obj
        return array_on, (stand_in, obj.dtype, obj.shape)


class Bundle:
    """A value, ready to be written."""

    def __init__(self, value: Any) -> None:
        self._parts: list[npt.NDArray[Any] | memoryview] = []
        file = io.BytesIO()
        Pickler(file, self._parts).dump(value)
        self._offsets = []
        table = [COUNT.pack(len(self._parts))]
        end = 0
        for part in self._parts:
            self._offsets.append(end)
            table.append(PART.pack(end, part.nbytes))
            end += -(-part.nbytes // ALIGNMENT) * ALIGNMENT
        self._tail = b"".join([*table, file.getvalue()])
        self.tail = end
        self.length = len(self._tail)

    @property
    def size(self) -> int:
        """Bytes in all."""
        return self.tail + self.length

    def write(self, memory: Any) -> None:
        """Put everything where it belongs in `memory`."""
        for part, offset in zip(self._parts, self._offsets, strict=True):
            if isinstance(part, memoryview):
                memory[offset : offset + part.nbytes] = part
            else:
                opaque(np.ndarray(part.shape, part.dtype, memory, offset))[...] = opaque(part)
        memory[self.tail : self.size] = self._tail


def array_of(obj: Any) -> npt.NDArray[Any] | None:
    """The array under a tensor; None for what is no plain tensor, or of a type that arrays don't have."""
    torch = sys.modules["torch"]
    if type(obj) is not torch.Tensor or obj.requires_grad:
        return None
    try:
        array: npt.NDArray[Any] = obj.numpy()
    except (TypeError, RuntimeError):
        return None
    return array


def tensor_on(array: npt.NDArray[Any]) -> Any:
    """What a packed tensor becomes."""
    import torch

    return torch.from_numpy(array)


def array_on(memory: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """What a packed array becomes."""
    array: npt.NDArray[Any] = np.ndarray(shape, dtype, memory)
    return array


def unpacked(memory: npt.NDArray[np.uint8], tail: int, length: int) -> Any:
    """The value; its arrays lie in `memory`, and keep it."""
    view = memory.data
    described = view[tail : tail + length]
    count = COUNT.unpack_from(described)[0]
    table = described[COUNT.size : COUNT.size + count * PART.size]
    return pickle.loads(described[COUNT.size + count * PART.size :], buffers=parts(view, table))


def parts(view: memoryview, table: memoryview) -> Iterator[memoryview]:
    """The parts in their order."""
    for offset, length in PART.iter_unpack(table):
        yield view[offset : offset + length]
