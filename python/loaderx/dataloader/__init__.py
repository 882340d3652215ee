"""The loader: an endless stream of batches, gathered and transformed in the background.

- `DataLoader`: the public class (`loader.py`).
- `pipeline.py`: the threads behind it. `state.py`: what a resume needs.
"""

from loaderx.dataloader.loader import DataLoader

__all__ = ["DataLoader"]
