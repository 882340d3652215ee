"""Datasets: NumPy-shaped views of stores.

- `DenseDataset`: every record has the same shape; batches are stacked arrays.
- `RaggedDataset`: every record has a shape of its own; batches are lists, or `Packed`.
- `MSDataset`: several aligned streams in one directory.
- `pad`: a ragged batch as a dense one, from `loaderx.utils`.
- `DICT_TIERS`: presets for training dictionaries.
"""

from loaderx.dataset.base import Dataset
from loaderx.dataset.dense import DenseDataset
from loaderx.dataset.multi import MSDataset
from loaderx.dataset.packed import Packed
from loaderx.dataset.ragged import RaggedDataset
from loaderx.dataset.tiers import DICT_TIERS

# Last: it needs the datasets.
from loaderx.utils.padding import pad

__all__ = ["DICT_TIERS", "Dataset", "DenseDataset", "MSDataset", "Packed", "RaggedDataset", "pad"]
