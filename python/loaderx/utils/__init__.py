"""Arrays and iterables to stores, ragged batches to dense ones, and the training of dictionaries.

- `from_numpy`: a stacked array to a dense store.
- `from_iterator`: an iterable of records to a ragged store.
- `pad`: a ragged batch to a dense one.
- `train_dict`: a dictionary from settled data. `dictionary_gain`: what it gains. `measured_dict`: both, on parts of one sample.
"""

from loaderx.utils.arrays import from_iterator, from_numpy
from loaderx.utils.dictionary import train_dict
from loaderx.utils.gain import Gain, Written, dictionary_gain, measured_dict
from loaderx.utils.padding import pad

__all__ = ["Gain", "Written", "dictionary_gain", "from_iterator", "from_numpy", "measured_dict", "pad", "train_dict"]
