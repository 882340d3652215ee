"""Batches for PyTorch; needs it, and is imported by nothing else of loaderx.

- `to_device`: a transform, arrays -> tensors on a device (`transfer.py`; `cuda.py` and `pinned.py` are how they get to a GPU).
- `tensor`: one array as a tensor, without a copy (`tensors.py`).
- `IterableLoader`: a loader as a dataset of torch, for `torchdata.stateful_dataloader` (`iterable.py`).
"""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ImportError("loaderx.torch needs PyTorch: pip install torch") from error

from loaderx.torch.iterable import IterableLoader
from loaderx.torch.tensors import tensor
from loaderx.torch.transfer import ToDevice, to_device

__all__ = ["IterableLoader", "ToDevice", "tensor", "to_device"]
