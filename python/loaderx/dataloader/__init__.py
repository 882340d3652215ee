"""The loader: an endless stream of batches, gathered and transformed in the background.

- `DataLoader`: the public class (`loader.py`), what it says of itself (`facts.py`). `Mixture`: several data sets in one (`mixture.py`).
- `Buckets`: batches of records of like length (`buckets.py`), and where they are cut (`cutting.py`).
- What a step reads: `sources.py` (streams), `selection.py` (records), `ranks.py` (whose part).
- What becomes of it: `plan.py`, `transforms.py`.
- Who makes it: `pipeline.py` (what all of them do), `native.py`, `threads.py`, `processes/`; `start.py` chooses.
- How far ahead, and how the consumer waits: `waiting.py`, `window.py`. What can go wrong with workers: `errors.py`.
- `state.py`: what a resume needs. `stats.py`: what is counted. `take.py`: loops of so many steps.
"""

from loaderx.dataloader.buckets import Buckets, BucketSampler
from loaderx.dataloader.errors import BatchTimeoutError, WorkerDiedError, WorkerError
from loaderx.dataloader.loader import DataLoader
from loaderx.dataloader.mixture import Mixture
from loaderx.dataloader.stats import Stats

__all__ = [
    "BatchTimeoutError",
    "BucketSampler",
    "Buckets",
    "DataLoader",
    "Mixture",
    "Stats",
    "WorkerDiedError",
    "WorkerError",
]
