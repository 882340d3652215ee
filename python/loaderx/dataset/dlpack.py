"""Reading DLPack capsules of dtypes that NumPy's own reader refuses: those of `ml_dtypes`, such as torch's bfloat16.

What could go wrong: this reads a C structure by address. The address is a capsule's that is still called "dltensor", so its producer
promises the layout of `DLManagedTensor` (DLPack up to 1.x, the version that a producer gives who is asked for none), and memory that
stays until the capsule dies. The array keeps the capsule, which is not consumed: its own destructor frees the memory.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from loaderx.dataset.named import WIDTHS, dtype_named

NAME = b"dltensor"
CPU_DEVICES = (1, 3, 11, 13)
"""The CPU, and memory of CUDA and ROCm that it shares: page-locked, or managed."""
DEVICES = {2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 14: "oneapi"}

NAMES = {
    4: "bfloat16",
    7: "float8_e3m4",
    8: "float8_e4m3",
    9: "float8_e4m3b11fnuz",
    10: "float8_e4m3fn",
    11: "float8_e4m3fnuz",
    12: "float8_e5m2",
    13: "float8_e5m2fnuz",
    14: "float8_e8m0fnu",
}
"""Type codes of DLPack. Its floats of less than a byte are packed there, and are not what `ml_dtypes` has in memory."""


class Tensor(ctypes.Structure):
    """`DLTensor`, the beginning of `DLManagedTensor`."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


pointer_in = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class Memory:
    """A producer's memory as NumPy's array interface, of voids; it lives as long as the capsule."""

    def __init__(self, capsule: object, interface: dict[str, Any]) -> None:
        self.capsule = capsule
        self.__array_interface__ = interface


def named_array(capsule: object) -> npt.NDArray[Any] | None:
    """The array in a capsule, on its memory and read-only; None if its dtype is none of `NAMES`. ImportError without `ml_dtypes`."""
    try:
        found = Tensor.from_address(pointer_in(capsule, NAME))
    except ValueError:
        return None
    name = NAMES.get(found.code)
    if name is None or found.lanes != 1 or found.bits != 8 * WIDTHS[name] or found.device_type not in CPU_DEVICES:
        return None
    width = WIDTHS[name]
    shape = tuple(found.shape[: found.ndim])
    strides = tuple(width * step for step in found.strides[: found.ndim]) if found.strides else None
    # An array without elements may have no memory, and NumPy takes none at address 0 for a request to make some.
    if 0 in shape:
        return np.empty(shape, dtype_named(name))
    interface = {
        "version": 3,
        "typestr": f"|V{width}",
        "shape": shape,
        "strides": strides,
        "data": (found.data + found.byte_offset, True),
    }
    return np.asarray(Memory(capsule, interface)).view(dtype_named(name))


def device_name(device: Any) -> str:
    """`__dlpack_device__()` for a message."""
    number = int(device[0])
    return f"{DEVICES.get(number, f'of type {number}')}:{int(device[1])}"
