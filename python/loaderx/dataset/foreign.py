"""Arrays of others as NumPy arrays: what speaks the buffer protocol, NumPy's array protocols or DLPack. Mostly nothing is copied.

Only memory that the CPU can read is taken. A copy from a device is slow and waits, so it is never made unasked.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from loaderx.dataset import dlpack

Array = npt.NDArray[Any]

ARRAY_PROTOCOLS = ("__array_interface__", "__array_struct__", "__array__")


def speaks(values: object) -> bool:
    """Whether `values` is an array, or says itself how it becomes one."""
    return isinstance(values, np.ndarray) or (
        not isinstance(values, (np.generic, type))
        and any(hasattr(values, name) for name in (*ARRAY_PROTOCOLS, "__dlpack__", "__cuda_array_interface__"))
    )


def is_array(values: object) -> bool:
    """Whether `values` is one array, rather than a container that can also become one."""
    return isinstance(values, np.ndarray) or (hasattr(values, "__dlpack__") and not isinstance(values, type))


def has_buffer(values: object) -> bool:
    """Whether `values` speaks the buffer protocol."""
    try:
        memoryview(values).release()  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):
        return False
    return True


def has_dtype(values: object) -> bool:
    """Whether `values` is an array or a buffer, and so of one dtype. Scalars and texts are taken for Python's."""
    return speaks(values) or (has_buffer(values) and not isinstance(values, (bytes, np.generic)))


def array_of(values: Any, what: str, text: bool = False) -> Array:
    """`values` as a NumPy array of whatever dtype it has.

    Args:
        values: an array of any package, a buffer, or what `numpy.asarray` takes.
        what: names it in messages.
        text: `bytes` are one string rather than a buffer of uint8.

    Raises:
        TypeError: it lies in a device's memory, has a mask, or says that it can't be had as an array.
        ValueError: it is not of one shape.
    """
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{what}: a masked array, and a store keeps no masks; fill it first (array.filled(...))")
    if isinstance(values, np.ndarray):
        return np.asarray(values)
    if isinstance(values, bytes) and not isinstance(values, np.generic) and not text:
        return np.frombuffer(values, np.uint8)
    if not speaks(values):
        return asarray(values, what)
    refuse_device(values, what)
    if not any(hasattr(values, name) for name in ARRAY_PROTOCOLS):
        return from_dlpack(values, what)
    try:
        return asarray(values, what)
    except Exception as error:
        # Of all that an array protocol may refuse, only a dtype that NumPy has no name for can be had another way.
        array = named_array(values)
        if array is None:
            raise no_array(values, what, error) from error
        return array


def asarray(values: Any, what: str) -> Array:
    """`numpy.asarray`, its error naming `what`."""
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{what}: not an array of one shape: {error}") from error


def from_dlpack(values: Any, what: str) -> Array:
    """The array of an object that speaks nothing but DLPack."""
    try:
        array = named_array(values)
        return np.from_dlpack(values) if array is None else array
    except ImportError:
        raise
    except Exception as error:
        raise no_array(values, what, error) from error


def named_array(values: Any) -> Array | None:
    """The array of an object that speaks DLPack, if its dtype is one of `ml_dtypes`; else None. ImportError where that is missing."""
    if not hasattr(values, "__dlpack__"):
        return None
    try:
        capsule = values.__dlpack__()
    except Exception:
        return None
    return dlpack.named_array(capsule)


def refuse_device(values: Any, what: str) -> None:
    """TypeError for an array in memory that the CPU doesn't read."""
    device = None
    if hasattr(values, "__dlpack_device__"):
        try:
            device = values.__dlpack_device__()
        except Exception:
            device = None  # an array on several devices has no one answer, but may well be had
    on_cpu = device is None or int(device[0]) in dlpack.CPU_DEVICES
    if on_cpu and not (device is None and hasattr(values, "__cuda_array_interface__")):
        return
    where = "a CUDA device" if device is None else f"device {dlpack.device_name(device)}"
    raise TypeError(
        f"{what}: this {kind_of(values)} lies on {where}, and a store takes what lies in the CPU's memory: copy it to the CPU first "
        "(torch: tensor.cpu(), CuPy: array.get(), JAX: jax.device_get(array))"
    )


def no_array(values: Any, what: str, error: Exception) -> Exception:
    """The error of an object that has a protocol and then gives no array."""
    kind = ValueError if isinstance(error, ValueError) else TypeError
    return kind(f"{what}: this {kind_of(values)} gives no array: {error}")


def kind_of(values: object) -> str:
    """The class of `values`, with its package."""
    return f"{type(values).__module__}.{type(values).__qualname__}"
