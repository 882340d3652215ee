"""The loader: an endless stream of batches, gathered and transformed in the background.

- `DataLoader`: the public class (`loader.py`).
- `threads.py`: the threads behind it; `processes/`: the processes. `waiting.py`: how their results are waited for.
- `plan.py`: what they make of a step. `state.py`: what a resume needs.
"""

from loaderx.dataloader.loader import DataLoader
from loaderx.dataloader.processes import WorkerDiedError, WorkerError

__all__ = ["DataLoader", "WorkerDiedError", "WorkerError"]
