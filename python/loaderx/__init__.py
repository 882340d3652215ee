"""loaderx: a persistent record store, an index sampler, and an endless data loader.

- `loaderx.utils`: arrays and iterables to stores, dictionaries, padding.
- `loaderx.dataset`: datasets over stores.
- `loaderx.recode`, `concat`, `select`, `split`: stores written anew.
- `loaderx.convert`, `loaderx.to_numpy`, `loaderx.to_arrow`, `loaderx.to_hf`: data of other libraries to stores, and stores to them.
- `loaderx.migrate`, `loaderx.export`: stores of other generations.
- `loaderx.dataloader`: random batches of them, for ever.
- `loaderx.sampler`: the order of those batches.
- `loaderx.zrecord`: the store of byte records underneath, and the errors.
"""

from loaderx._core import __version__
from loaderx.converters import Conversion, convert, to_arrow, to_hf, to_numpy
from loaderx.dataloader import BatchTimeoutError, Buckets, DataLoader, Mixture, Stats, WorkerDiedError, WorkerError
from loaderx.dataset import DICT_TIERS, DenseDataset, MSDataset, Packed, RaggedDataset
from loaderx.dataset.integrity import Problem, Repaired, Report, repair, verify
from loaderx.generations import export, migrate
from loaderx.rewriting import Rewritten, concat, recode, select, split
from loaderx.sampler import Sampler
from loaderx.utils import Gain, dictionary_gain, from_iterator, from_numpy, measured_dict, pad, train_dict
from loaderx.zrecord import (
    CODECS,
    MAX_RECORD_LEN,
    CorruptRecordError,
    CorruptStoreError,
    StaleStoreError,
    StoreLockedError,
    UnsupportedCodecError,
    Zrecord,
    ZrecordError,
    build_dict,
)

__all__ = [
    "CODECS",
    "DICT_TIERS",
    "MAX_RECORD_LEN",
    "BatchTimeoutError",
    "Buckets",
    "Conversion",
    "CorruptRecordError",
    "CorruptStoreError",
    "DataLoader",
    "DenseDataset",
    "Gain",
    "MSDataset",
    "Mixture",
    "Packed",
    "Problem",
    "RaggedDataset",
    "Repaired",
    "Report",
    "Rewritten",
    "Sampler",
    "StaleStoreError",
    "Stats",
    "StoreLockedError",
    "UnsupportedCodecError",
    "WorkerDiedError",
    "WorkerError",
    "Zrecord",
    "ZrecordError",
    "__version__",
    "build_dict",
    "concat",
    "convert",
    "dictionary_gain",
    "export",
    "from_iterator",
    "from_numpy",
    "measured_dict",
    "migrate",
    "pad",
    "recode",
    "repair",
    "select",
    "split",
    "to_arrow",
    "to_hf",
    "to_numpy",
    "train_dict",
    "verify",
]
