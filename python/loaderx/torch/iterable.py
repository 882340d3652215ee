"""A loader as a dataset of torch's, with a state that torchdata's `StatefulDataLoader` saves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch.utils.data

from loaderx.arguments import integer
from loaderx.dataloader import DataLoader


class IterableLoader(torch.utils.data.IterableDataset):
    """The batches of a loader, for ever, as a `torch.utils.data.IterableDataset`; give it `batch_size=None`.

        dataset = IterableLoader(lambda: DataLoader(streams, batch_size=256))
        loader = StatefulDataLoader(dataset, batch_size=None)

    The loader's own threads make batches ahead, so `num_workers=0` is the right number, and 1 where transforms need a process.
    Of n > 1 workers each makes every n-th step, without threads of its own; they know no `timeout` and skip nothing.

    The state that `StatefulDataLoader.state_dict()` has of each worker is the loader's own. It goes on at the same batch, with the same
    number of workers. To go on with another number: `seek`.

    Args:
        make: makes the loader, in the process where it is used. It must pickle where workers are not forked. A worker knows nothing of
            `torch.distributed`: give the loader its `rank` and `world_size`.
        step: the first step.
    """

    def __init__(self, make: Callable[[], DataLoader], step: int = 0) -> None:
        super().__init__()
        self._make = make
        self.seek(step)

    def seek(self, step: int) -> None:
        """Let `step` be the first one of every iterator from now on."""
        self._step = integer(step, "step")

    def __iter__(self) -> Iterator[Any]:
        worker = torch.utils.data.get_worker_info()
        number, workers = (0, 1) if worker is None else (worker.id, worker.num_workers)
        return Steps(self._make(), self._step + number, workers)


class Steps:
    """Every `stride`-th step of a loader from `step` on."""

    def __init__(self, loader: DataLoader, step: int, stride: int) -> None:
        self._loader = loader
        self._stride = stride
        loader.seek(step)

    def __iter__(self) -> Steps:
        return self

    def __next__(self) -> Any:
        if self._stride == 1:
            return next(self._loader)
        step = self._loader.step
        batch = self._loader.batch_at(step)
        self._loader.seek(step + self._stride)
        return batch

    def state_dict(self) -> dict[str, Any]:
        """The loader's, standing at the step that comes next here."""
        return dict(self._loader.state_dict())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on there; raises what the loader's own raises."""
        self._loader.load_state_dict(state)
