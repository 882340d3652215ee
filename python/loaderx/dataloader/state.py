"""The state of a loader: plain numbers that make a resume exact, and refuse to resume anything else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loaderx.arguments import integer
from loaderx.sampler import ORDER_VERSION, Sampler

VERSION = 1


def state_of(sampler: Sampler, step: int) -> dict[str, int]:
    """The state in which `step` is the next one."""
    return {
        "version": VERSION,
        "order_version": ORDER_VERSION,
        "seed": sampler.seed,
        "mode": int(sampler.mode),
        "step": step,
        "batch_size": sampler.batch_size,
        "length": sampler.length,
    }


def step_from(state: Mapping[str, Any], sampler: Sampler) -> int:
    """The step that `state` resumes at.

    Raises:
        TypeError: no mapping, or a value that is no integer.
        ValueError: fields unknown or missing, or one that differs from the loader's own; the message names it.
    """
    if not isinstance(state, Mapping):
        raise TypeError(f"state: expected a mapping, found {type(state).__name__}")
    own = state_of(sampler, step=0)
    missing = [name for name in own if name not in state]
    unknown = [name for name in state if name not in own]
    if missing or unknown:
        raise ValueError(f"state: expected the fields {list(own)}; missing: {missing}, unknown: {unknown}")
    for name, expected in own.items():
        found = integer(state[name], f"state: {name}")
        if name != "step" and found != expected:
            raise ValueError(f"state: {name}: expected this loader's {expected}, found {found}")
    return integer(state["step"], "state: step")
