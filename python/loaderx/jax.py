"""Batches for JAX; needs it, and is imported by nothing else of loaderx.

- `to_device`: a transform, arrays -> `jax.Array`s on a device or with a sharding.
- `global_batch`: a transform, this process's slices -> `jax.Array`s of the global batch, over the devices of all processes.

Both narrow 64-bit integers as far as JAX has none (`jax_enable_x64`), but only numbers that fit: JAX itself would cut the others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

try:
    import jax
except ModuleNotFoundError as error:
    if error.name != "jax":
        raise
    raise ImportError("loaderx.jax needs JAX: pip install jax") from error

from loaderx.trees import mapped

__all__ = ["GlobalBatch", "ToDevice", "global_batch", "to_device"]

Array = npt.NDArray[Any]

REGISTERED = 2
"""`dtype.isbuiltin` of dtypes that a package (`ml_dtypes`) has added to NumPy."""


class ToDevice:
    """See `to_device`."""

    def __init__(self, device: Any | None = None) -> None:
        self.device = device

    def __call__(self, batch: Any) -> Any:
        """The batch with `jax.Array`s in place of its arrays."""
        return mapped(batch, self._put)

    def _put(self, array: Array, what: str) -> Any:
        return jax.device_put(representable(array, what), self.device)

    def __repr__(self) -> str:
        return f"to_device({self.device!r})"


class GlobalBatch:
    """See `global_batch`."""

    def __init__(self, sharding: Any) -> None:
        self.sharding = sharding

    def __call__(self, batch: Any) -> Any:
        """The batch with global `jax.Array`s in place of its arrays."""
        for name, values in batch.items() if isinstance(batch, dict) else ():
            if isinstance(values, list):
                raise TypeError(
                    f"batch[{name!r}]: a list of records of different lengths is no global array; pad it to one before"
                )
        return mapped(batch, self._put)

    def _put(self, array: Array, what: str) -> Any:
        return jax.make_array_from_process_local_data(self.sharding, representable(array, what))

    def __repr__(self) -> str:
        return f"global_batch({self.sharding!r})"


def to_device(device: Any | None = None) -> ToDevice:
    """A transform: batch -> the same batch with `jax.Array`s in place of its arrays.

    Dicts, lists, tuples and `Packed` keep their form, so a ragged stream becomes a list of `jax.Array`s; numbers and strings stay, and
    so do the dtypes, bfloat16 and the other dtypes of `ml_dtypes` among them. The copy is begun on the worker thread and not waited
    for. On a CPU the `jax.Array` may have the batch's own memory, which nobody writes to again.

    Without `jax_enable_x64` there are no 64-bit dtypes in JAX. Integers are narrowed to 32 bits if all of the batch fit.

    Args:
        device: a `jax.Device` or a `jax.sharding.Sharding`, as for `jax.device_put`. None: the default device.

    Raises:
        TypeError: (by the transform) a dtype that JAX doesn't have, float64 and complex128 without `jax_enable_x64` among them.
        OverflowError: (by the transform) a 64-bit integer that doesn't fit into 32 bits. The message says where.
    """
    return ToDevice(device)


def global_batch(sharding: Any) -> GlobalBatch:
    """A transform: this process's part of a batch -> the same with `jax.Array`s of the global batch, `sharding` over all processes.

    Every process has the loader with its own `rank`, and each array of the batch is a slice along the first axis, equally long everywhere:
    the global batch size is a multiple of the number of processes. The rows are those of the global batch, in its order where the
    mesh has its devices in the order of the processes. dtypes and errors are those of `to_device`.

    Args:
        sharding: a `jax.sharding.Sharding`, most often `NamedSharding(mesh, PartitionSpec("data"))`.

    Raises:
        TypeError: (by the transform) a list of arrays, which is what a ragged stream gives: pad it first.
    """
    return GlobalBatch(sharding)


def representable(array: Array, what: str) -> Array:
    """`array` in a dtype that JAX has; no value is changed by that."""
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype.kind in "mMSU" or (array.dtype.kind == "V" and array.dtype.isbuiltin != REGISTERED):
        raise TypeError(
            f"{what}: JAX has numbers only, and this is of dtype {array.dtype}; convert it in a transform before, or leave it out"
        )
    kept = np.dtype(jax.dtypes.canonicalize_dtype(array.dtype))
    if kept == array.dtype:
        return array
    if array.dtype.kind not in "iu":
        raise TypeError(
            f"{what}: JAX has no {array.dtype} unless jax_enable_x64 is set, and would round it to {kept}; "
            "set that, or convert in a transform before"
        )
    bounds = np.iinfo(kept)
    if array.size and not (bounds.min <= array.min() and array.max() <= bounds.max):
        raise OverflowError(
            f"{what}: JAX has no {array.dtype} unless jax_enable_x64 is set, and the numbers from {array.min()} to {array.max()} "
            f"don't fit into {kept}"
        )
    return array.astype(kept)
