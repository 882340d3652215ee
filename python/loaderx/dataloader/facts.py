"""What a loader says of what it draws."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from loaderx.dataloader.mixture import Mixture
from loaderx.dataloader.selection import Selection
from loaderx.dataloader.sources import Sources
from loaderx.sampler import Sampler


class Facts(ABC):
    """Properties that never change in the life of a loader, and how it presents itself."""

    _selection: Selection
    _sources: Sources
    _streams: Any

    @property
    @abstractmethod
    def step(self) -> int:
        """Where it stands."""

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether it came to its end."""

    @property
    def length(self) -> int:
        """Records that are drawn from, as of the loader's construction: of each stream, of `indices` or `buckets`; of a mixture in all."""
        return sum(self._selection.lengths)

    @property
    def batch_size(self) -> int:
        """Records a step, of all ranks together; the most of any step with buckets."""
        return self._selection.batch_size

    @property
    def local_batch_size(self) -> int:
        """Records a step that are this rank's; the most of any step with buckets."""
        return self._selection.local_batch_size

    @property
    def steps_per_pass(self) -> int:
        """Steps after which about as many records were drawn as there are: what others call an epoch. For cyclic order it is a cycle."""
        return self._selection.steps_per_pass

    @property
    def rank(self) -> int:
        """Whose part of each batch this is."""
        return self._selection.ranks.rank

    @property
    def world_size(self) -> int:
        """The number of parts."""
        return self._selection.ranks.world_size

    @property
    def mode(self) -> Sampler.Mode:
        """The order."""
        return Sampler.Mode(self._selection.mode)

    @property
    def seed(self) -> int:
        """The seed."""
        return self._selection.seed

    @property
    def streams(self) -> Any:
        """Name -> dataset, or the mixture."""
        return self._streams if isinstance(self._streams, Mixture) else dict(self._sources.components[0])

    def __len__(self) -> int:
        raise TypeError(
            "a DataLoader never ends, so it has no length; loader.take(n) is a loop of n steps, "
            "loader.steps_per_pass how many a pass over the data has, loader.length the number of records"
        )

    def __bool__(self) -> bool:
        return True  # without this, truth would ask for the length

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"step={self.step}"
        ranks = "" if self.world_size == 1 else f"rank={self.rank}, world_size={self.world_size}, "
        return (
            f"DataLoader(streams={self._sources.names}, length={self.length}, batch_size={self.batch_size}, {ranks}"
            f"mode={self.mode.name}, seed={self.seed}, {state})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(
            "a DataLoader does not pickle: pickle its datasets and its state_dict(), and make a new one of them"
        )
