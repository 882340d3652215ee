"""Converters: arrays and iterables to stores, ragged batches to dense ones, and the training of dictionaries.

- `from_numpy`: a stacked array to a dense store.
- `from_iterator`: an iterable of records to a ragged store.
- `pad`: a ragged batch to a dense one.
- `train_dict`: a dictionary from settled data.
"""

from loaderx.utils.convert import from_iterator, from_numpy
from loaderx.utils.dictionary import train_dict
from loaderx.utils.padding import pad

__all__ = ["from_iterator", "from_numpy", "pad", "train_dict"]
