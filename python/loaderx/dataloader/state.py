"""The state of a loader: plain numbers and names that make a resume exact, and refuse to resume anything else."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from loaderx.arguments import integer
from loaderx.dataloader.selection import MAX_STEP, Selection
from loaderx.dataloader.sources import Sources
from loaderx.sampler import ORDER_VERSION

VERSION = 2
"""Of the fields below."""

MOST_NUMBERS = 16


def frame_of(sources: Sources, selection: Selection) -> dict[str, Any]:
    """All of the state but where it stands. None of it is of a rank, so a state that any rank saved is every rank's."""
    return {
        "version": VERSION,
        "order_version": ORDER_VERSION,
        "seed": selection.seed,
        "mode": int(selection.mode),
        "batch_size": selection.batch_size,
        "fingerprint": {
            "length": short(sources.lengths),
            "schema": sources.schema(),
            "generation": generations_of(sources),
            "selection": selection.digest(),
        },
    }


def generations_of(sources: Sources) -> list[int] | str:
    """How often records of each stream were moved, as of now."""
    return short(sources.generations())


def short(numbers: list[int]) -> list[int] | str:
    """The numbers, or a digest where they are many: a state is small."""
    if len(numbers) <= MOST_NUMBERS:
        return numbers
    return hashlib.sha256(repr(numbers).encode()).hexdigest()[:16]


class Position(NamedTuple):
    """Where a loader stands."""

    step: int
    """The first step that the consumer has not seen."""
    seen: frozenset[int] = frozenset()
    """Those after it that it has."""

    def has(self, step: int) -> bool:
        """Whether the consumer has seen `step`."""
        return step < self.step or step in self.seen

    def past(self, step: int) -> Position:
        """The position when `step` is seen as well."""
        if step == self.step and not self.seen:
            return Position(step + 1)
        seen, first = {*self.seen, step}, self.step
        while first in seen:
            seen.discard(first)
            first += 1
        return Position(first, frozenset(seen))


def state_of(frame: Mapping[str, Any], position: Position) -> dict[str, Any]:
    """The state of that position."""
    step, seen = position
    return {**frame, "step": step, "seen": sorted(seen)}


def position_from(state: Mapping[str, Any], frame: Mapping[str, Any]) -> Position:
    """Where `state` stands.

    Raises:
        TypeError: no mapping, or a value of another type.
        ValueError: fields unknown or missing, or one that differs from the loader's own; the message names it.
    """
    if not isinstance(state, Mapping):
        raise TypeError(f"state: expected a mapping, found {type(state).__name__}")
    if state.get("version", VERSION) != VERSION:
        raise ValueError(f"state: version: expected {VERSION}, found {state['version']!r}")
    check_fields(state, [*frame, "step", "seen"], "state")
    compare(state, frame, "state")
    step = integer(state["step"], "state: step", maximum=MAX_STEP)
    if not isinstance(state["seen"], (list, tuple)):
        raise TypeError(f"state: seen: expected a list of steps, found {state['seen']!r}")
    seen = frozenset(integer(seen, "state: seen", minimum=step + 1, maximum=MAX_STEP) for seen in state["seen"])
    return Position(step, seen)


def check_fields(found: Mapping[str, Any], expected: list[str], what: str) -> None:
    """ValueError unless there are exactly these fields."""
    missing = [name for name in expected if name not in found]
    unknown = [name for name in found if name not in expected]
    if missing or unknown:
        raise ValueError(f"{what}: expected the fields {expected}; missing: {missing}, unknown: {unknown}")


def compare(state: Mapping[str, Any], frame: Mapping[str, Any], what: str) -> None:
    """ValueError if a field is not this loader's."""
    for name, expected in frame.items():
        found = state[name]
        if isinstance(expected, Mapping):
            if not isinstance(found, Mapping):
                raise TypeError(f"{what}: {name}: expected a mapping, found {found!r}")
            check_fields(found, list(expected), f"{what}: {name}")
            compare(found, expected, f"{what}: {name}")
            continue
        if isinstance(expected, int):
            found = integer(found, f"{what}: {name}")
        elif isinstance(expected, list) and isinstance(found, (list, tuple)):
            found = [integer(number, f"{what}: {name}") for number in found]
        if type(found) is not type(expected) or found != expected:
            raise ValueError(f"{what}: {name}: expected this loader's {expected!r}, found {found!r}")
