"""The loader: an endless stream of batches, gathered and transformed in the background.

- `DataLoader`: the public class (`loader.py`).
- `threads.py`: the threads behind it. `plan.py`: what they make of a step. `state.py`: what a resume needs.
"""

from loaderx.dataloader.loader import DataLoader

__all__ = ["DataLoader"]
