"""`loaderx.jax`: batches as `jax.Array`s, on one device or over several."""

from __future__ import annotations

import itertools
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frameworks import framework
from loaderx.dataloader import DataLoader
from loaderx.dataset import DenseDataset, Packed
from loaderx.utils import from_numpy
from streams import IMAGES, TOKENS
from support import all_same, same

jax = framework("jax")

from loaderx.jax import global_batch, to_device  # noqa: E402

# The first import of a framework reads a gigabyte.
pytestmark = pytest.mark.timeout(300)
DEVICES = Path(__file__).with_name("jax_devices.py")


def test_the_published_example(streams: Any) -> None:
    """As printed. The numbers are small, so that JAX's own narrowing of 64-bit integers changes none."""
    streams.pop("token")
    code = """
import jax

def to_device(batch):
    return {k: jax.device_put(v) for k, v in batch.items()}
"""
    names: dict[str, Any] = {}
    exec(code, names)
    with DataLoader(streams, batch_size=20, transform=names["to_device"]) as loader:
        for batch in itertools.islice(loader, 5):
            assert all(isinstance(values, jax.Array) for values in batch.values())
            assert same(batch["image"], IMAGES[np.asarray(batch["index"])])


def test_batches_become_arrays(streams: Any) -> None:
    with DataLoader(streams, batch_size=5, transform=to_device()) as loader, DataLoader(streams, 1, 5) as twin:
        for batch, arrays in itertools.islice(zip(loader, twin, strict=True), 20):
            assert same(batch["image"], arrays["image"])
            assert same(batch["index"], arrays["index"].astype(np.int32))
            assert all_same(batch["token"], arrays["token"])
            assert all(isinstance(record, jax.Array) for record in batch["token"])


def test_batches_stay_what_they_are(tmp_path: Path) -> None:
    """An array of JAX may lie in a batch's own memory; that is never used for another batch while it lives."""
    rows = np.arange(64 * 4096, dtype=np.float32).reshape(64, 4096)
    from_numpy(tmp_path / "row", rows, "raw")
    with DenseDataset(tmp_path / "row") as ds, DataLoader({"row": ds}, batch_size=16, transform=to_device()) as loader:
        kept = [next(loader)["row"] for _ in range(10)]
        for _ in range(100):
            next(loader)
        loader.seek(0)
        assert all(same(batch, next(loader)["row"]) for batch in kept)
    for batch in kept:
        assert same(batch, rows[np.asarray(batch[:, 0]).astype(int) // 4096])


@pytest.mark.filterwarnings("error")
def test_arrays_are_taken_as_they_are(streams: Any) -> None:
    batch = streams["image"][[3, 1, 2]]
    assert same(jax.numpy.asarray(batch), IMAGES[[3, 1, 2]])
    assert same(jax.dlpack.from_dlpack(batch), IMAGES[[3, 1, 2]])


def test_every_form_of_batch_stays_what_it_is() -> None:
    packed = Packed(np.arange(3), np.array([0, 1, 3]), None)
    found = to_device()({"packed": packed, "tuple": (np.zeros(2, np.float16), 7, "name"), "scalar": np.float32(3)})
    assert isinstance(found["packed"], Packed)
    assert found["packed"].offsets.tolist() == [0, 1, 3]
    assert found["tuple"][1:] == (7, "name")
    assert found["tuple"][0].dtype == np.float16
    assert found["scalar"] == np.float32(3)


def test_dtypes_of_ml_dtypes() -> None:
    ml_dtypes = framework("ml_dtypes")
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        array = np.arange(8).astype(getattr(ml_dtypes, name))
        assert same(to_device()(array), array)


@pytest.mark.parametrize("dtype", ["?", "u1", "i1", "u2", "i2", "u4", "i4", "f2", "f4", "c8", ">i4", ">f4"])
def test_numbers_keep_their_dtype(dtype: str) -> None:
    array = (np.arange(6).reshape(2, 3) % 2).astype(dtype)
    assert same(to_device()(array), array.astype(array.dtype.newbyteorder("=")))


def test_no_64_bit_number_is_changed_silently() -> None:
    """JAX itself makes 0 of 2^40."""
    move = to_device()
    for dtype, narrow in (("i8", np.int32), ("u8", np.uint32)):
        fits = np.array([0, 1, np.iinfo(narrow).max, np.iinfo(narrow).min], dtype)
        assert same(move(fits), fits.astype(narrow))
        assert same(move(np.zeros((0, 3), dtype)), np.zeros((0, 3), narrow))
        with pytest.raises(OverflowError, match=r"batch\['x'\]: JAX has no u?int64 .* don't fit into u?int32"):
            move({"x": np.array([1, 2**40], dtype)})
    with pytest.raises(OverflowError):
        move(np.array([-(2**31) - 1]))
    for dtype in ("f8", "c16"):
        with pytest.raises(TypeError, match="JAX has no .* unless jax_enable_x64 is set, and would round it"):
            move(np.zeros(1, dtype))
    with jax.enable_x64(True):
        for array in (np.array([2**40]), np.array([0.1]), np.array([1j])):
            assert same(move(array), array)


@pytest.mark.parametrize("array", [np.array(["a"]), np.zeros(2, "M8[s]")])
def test_dtypes_that_jax_lacks(array: Any) -> None:
    with pytest.raises(TypeError):
        to_device()({"x": array})


def test_an_error_comes_at_its_step(streams: Any) -> None:
    def wide(batch: dict[str, Any]) -> Any:
        return to_device()({"index": batch["index"] + (2**40 if 7 in batch["index"] else 0)})

    with DataLoader(streams, batch_size=5, transform=wide) as loader, pytest.raises(OverflowError, match="'index'"):
        list(itertools.islice(loader, 5))


def test_a_ragged_stream_is_no_global_array(streams: Any) -> None:
    move = global_batch(jax.sharding.SingleDeviceSharding(jax.devices()[0]))
    with pytest.raises(TypeError, match=r"batch\['token'\]: a list of records .* pad it"):
        move({"token": TOKENS[:2]})


def has_an_address() -> bool:
    """Whether the host's name has an address, where JAX's processes listen for each other: a container may have no line for it."""
    try:
        return bool(socket.getaddrinfo(socket.gethostname(), None))
    except OSError:
        return False


together = pytest.mark.skipif(not has_an_address(), reason="the host's name has no address for JAX to listen at")


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("processes", "devices"), [(1, 4), pytest.param(2, 2, marks=together)])
def test_a_global_batch(tmp_path: Path, processes: int, devices: int) -> None:
    """Over four devices, of one process or of two that hold a half of each batch."""
    from_numpy(tmp_path / "image", np.arange(64 * 6, dtype=np.float32).reshape(64, 6))
    from_numpy(tmp_path / "label", np.arange(64))
    arguments = [str(tmp_path), str(processes), str(devices)]
    started = [
        subprocess.Popen([sys.executable, str(DEVICES), *arguments, str(rank)], stderr=subprocess.PIPE, text=True)
        for rank in range(processes)
    ]
    try:
        outcomes = [(process.communicate(timeout=240)[1], process.returncode) for process in started]
    finally:
        for process in started:
            process.kill()
    assert all(code == 0 for _, code in outcomes), "\n".join(text for text, _ in outcomes)
