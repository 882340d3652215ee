"""Tensors of torch as records, and bfloat16 from a store to a tensor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frameworks import framework
from loaderx.dataloader import DataLoader
from loaderx.dataset import DenseDataset, MSDataset, RaggedDataset
from loaderx.utils import from_iterator, from_numpy
from support import same

torch = framework("torch")
framework("ml_dtypes")

from loaderx.torch import to_device  # noqa: E402
from loaderx.torch.tensors import SAME_BITS, tensor  # noqa: E402

# The first import of a framework reads a gigabyte.
pytestmark = pytest.mark.timeout(300)
NAMES = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint16",
    "float16",
    "float32",
    "float64",
    "complex64",
    *SAME_BITS,
]


def numbers(name: str) -> Any:
    if name == "float8_e8m0fnu":  # powers of two only
        return torch.full((4, 6), 2.0).to(torch.float8_e8m0fnu)
    return (torch.arange(24).reshape(4, 6) % 5).to(getattr(torch, name))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("error")
def test_tensors_of_each_dtype(tmp_path: Path, name: str) -> None:
    if not hasattr(torch, name):
        pytest.skip("this torch has no such dtype")
    given = numbers(name)
    bits = bytes(given.view(torch.uint8).numpy().tobytes())
    from_numpy(tmp_path / "dense", given)
    with DenseDataset(tmp_path / "dense") as dense:
        assert dense.dtype.name == name
        dense.append(list(given))
        dense.append(given[:2])
        found = tensor(dense[:])
    assert found.dtype == given.dtype
    assert same(
        found.view(torch.uint8).numpy(), torch.cat([t.view(torch.uint8) for t in (given, given, given[:2])]).numpy()
    )
    from_iterator(tmp_path / "ragged", (given[: i + 1] for i in range(4)), dense.dtype)
    with RaggedDataset(tmp_path / "ragged") as ragged:
        ragged.append([given.t(), given[::2, 1::3], given[0, 0], given[:0]])
        assert [record.shape for record in ragged] == [(1, 6), (2, 6), (3, 6), (4, 6), (6, 4), (2, 2), (), (0, 6)]
        assert ragged[3].tobytes() == bits
        assert same(ragged[4], np.ascontiguousarray(ragged[3].T))
        assert same(ragged[5], np.ascontiguousarray(ragged[3][::2, 1::3]))
    assert bytes(given.view(torch.uint8).numpy().tobytes()) == bits


def test_no_dtype_is_changed(tmp_path: Path) -> None:
    with DenseDataset(tmp_path / "ds", "bfloat16", (2,)) as ds:
        for wrong in (torch.zeros(1, 2), torch.zeros(1, 2, dtype=torch.float16), [torch.zeros(2)]):
            with pytest.raises(ValueError, match="append: .*expected dtype 'bfloat16', found"):
                ds.append(wrong)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: torch.zeros(2, requires_grad=True), "requires grad"),
        (lambda: torch.zeros(2, dtype=torch.bfloat16, requires_grad=True), "requires grad"),
        (lambda: torch.zeros(2).to_sparse(), "Sparse"),
        (lambda: torch.zeros(2, device="meta"), "meta"),
        (lambda: torch.zeros(2, dtype=torch.complex64).conj(), "resolve_conj"),
        (lambda: torch.zeros(2, dtype=torch.complex64).conj().imag, "resolve_neg"),
    ],
)
def test_tensors_that_are_no_arrays(tmp_path: Path, make: Any, text: str) -> None:
    with pytest.raises(TypeError, match=f"from_numpy: this torch.Tensor gives no array: .*{text}"):
        from_numpy(tmp_path / "ds", make())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_tensor_on_a_gpu(tmp_path: Path) -> None:
    with pytest.raises(
        TypeError, match=r"this torch.Tensor lies on device cuda:0.*: copy it to the CPU first \(torch: tensor.cpu\(\)"
    ):
        from_numpy(tmp_path / "ds", torch.zeros(2, device="cuda"))
    pinned = torch.arange(4.0).pin_memory()
    from_numpy(tmp_path / "pinned", pinned)
    assert DenseDataset(tmp_path / "pinned")[:].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("worker_type", ["thread", "process"])
def test_bfloat16_from_a_store_to_the_device(tmp_path: Path, worker_type: str) -> None:
    weights = torch.arange(64).reshape(16, 4).to(torch.bfloat16)
    from_numpy(tmp_path / "ms" / "dense", weights)
    from_iterator(tmp_path / "ms" / "ragged", (weights[i, : i % 4 + 1] for i in range(16)), "bfloat16")
    from_numpy(tmp_path / "ms" / "index", np.arange(16))
    with MSDataset(tmp_path / "ms", read_only=True) as streams:
        options: dict[str, Any] = {"worker_type": worker_type, "num_workers": 1, "batch_size": 4}
        with DataLoader(streams, transform=to_device("cpu"), **options) as loader:
            batch = next(loader)
    assert batch["dense"].dtype == torch.bfloat16
    assert torch.equal(batch["dense"], weights[batch["index"]])
    for i, record in zip(batch["index"].tolist(), batch["ragged"], strict=True):
        assert record.dtype == torch.bfloat16
        assert torch.equal(record, weights[i, : i % 4 + 1])


@pytest.mark.parametrize("shape", [(), (2,)])
def test_the_default_collation_of_torch(tmp_path: Path, shape: tuple[int, ...]) -> None:
    """It knows the numbers that NumPy and torch both have."""
    for name in ("bool", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "c16"):
        rows = (np.arange(8 * int(np.prod(shape))) % 2).astype(name).reshape(8, *shape)
        from_numpy(tmp_path / name, rows)
        with DenseDataset(tmp_path / name) as ds:
            for batch in torch.utils.data.DataLoader(ds, batch_size=8):
                assert same(batch.numpy(), rows)
    for name, value in (("S3", b"ab"), ("U3", "ab")):
        assert torch.utils.data.default_collate([np.array([value], name)[0]] * 2) == [value, value]
