"""Converters: arrays and iterables to stores, and the training of dictionaries.

- `from_numpy`: a stacked array to a dense store.
- `from_iterator`: an iterable of records to a ragged store.
- `train_dict`: a dictionary from settled data.
"""

from loaderx.utils.convert import from_iterator, from_numpy
from loaderx.utils.dictionary import train_dict

__all__ = ["from_iterator", "from_numpy", "train_dict"]
