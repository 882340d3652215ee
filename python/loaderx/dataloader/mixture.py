"""Several data sets in one loader, each with its share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from loaderx.arguments import integer
from loaderx.dataloader import arguments

Weights = Mapping[str, float]


class Mixture:
    """Data sets that share every batch of a `DataLoader`, by weight.

    Of any run of steps, data set k gets its share of the records to within a few, not just on average: how many it has given before a step
    is computed, not drawn, and that is why a resume is exact without history. Each data set is walked in the loader's mode on its own:
    cyclic gives each of its records once before any comes again. The records of a batch are mixed, so that all ranks see all data sets.

    Args:
        components: name -> streams, as a `DataLoader` takes them (name -> dataset, or an MSDataset). All data sets have streams of the same
            names, kinds, dtypes and item shapes; their lengths are their own.
        weights: name -> weight, of any scale. None: by length, as if all records were in one data set.
        schedule: step -> weights that hold from this step on, after `weights`.
        exact: whether every batch has the same counts; then batch size times share must be a whole number for each data set.
        indices: name -> the records to draw from (as the loader's own `indices`), for some or all data sets.

    Raises:
        TypeError: an argument of another type.
        ValueError: no data sets, unknown or missing names, or a weight that is none. What depends on lengths and batch size is raised by
            the loader.
    """

    def __init__(
        self,
        components: Mapping[str, Any],
        weights: Weights | None = None,
        *,
        schedule: Mapping[int, Weights] | None = None,
        exact: bool = False,
        indices: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(components, Mapping):
            raise TypeError(f"components: expected a mapping of names to streams, found {type(components).__name__}")
        if not components:
            raise ValueError("components: expected at least one data set, found none")
        self.components = dict(components)
        self.weights = None if weights is None else self._checked("weights", weights)
        self.schedule = self._checked_schedule({} if schedule is None else schedule)
        self.exact = arguments.flag(exact, "exact")
        if indices is not None and not isinstance(indices, Mapping):
            raise TypeError(f"indices: expected a mapping of names to records, found {type(indices).__name__}")
        self.indices = dict(indices or {})
        unknown = [name for name in self.indices if name not in self.components]
        if unknown:
            raise ValueError(f"indices: expected names of {self.names}, found {unknown}")

    @property
    def names(self) -> list[str]:
        """The names of the data sets."""
        return list(self.components)

    def weights_by_step(self, lengths: Sequence[int]) -> list[tuple[int, list[float]]]:
        """(first step, weight of each data set), ascending, from step 0 on; `lengths` are the weights where none were given."""
        first = dict(zip(self.names, map(float, lengths), strict=True)) if self.weights is None else self.weights
        steps = {0: first} | self.schedule
        return [(step, [steps[step][name] for name in self.names]) for step in sorted(steps)]

    def _checked_schedule(self, schedule: Mapping[int, Weights]) -> dict[int, dict[str, float]]:
        if not isinstance(schedule, Mapping):
            raise TypeError(f"schedule: expected a mapping of steps to weights, found {type(schedule).__name__}")
        return {
            integer(step, "schedule: step"): self._checked(f"schedule: step {step}", weights)
            for step, weights in schedule.items()
        }

    def _checked(self, what: str, weights: Weights) -> dict[str, float]:
        if not isinstance(weights, Mapping):
            raise TypeError(f"{what}: expected a mapping of names to weights, found {type(weights).__name__}")
        missing = [name for name in self.components if name not in weights]
        unknown = [name for name in weights if name not in self.components]
        if missing or unknown:
            raise ValueError(
                f"{what}: expected a weight for each of {self.names}; missing: {missing}, unknown: {unknown}"
            )
        checked = {}
        for name in self.components:
            weight = arguments.real(weights[name], f"{what}: {name!r}")
            if not (math.isfinite(weight) and weight >= 0):
                raise ValueError(f"{what}: {name!r}: expected a finite number of at least 0, found {weight}")
            checked[name] = weight
        if not any(checked.values()):
            raise ValueError(f"{what}: expected a weight above 0, found {checked}")
        return checked

    def __repr__(self) -> str:
        return f"Mixture({self.names}, weights={self.weights}, schedule={self.schedule}, exact={self.exact})"
