"""What a loader says of what it draws."""

from __future__ import annotations

from typing import Any

from loaderx.dataloader.mixture import Mixture
from loaderx.dataloader.selection import Selection
from loaderx.dataloader.sources import Sources
from loaderx.sampler import Sampler


class Facts:
    """Properties that never change in the life of a loader."""

    _selection: Selection
    _sources: Sources
    _streams: Any

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
