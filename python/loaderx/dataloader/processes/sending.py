"""The plan, on its way to the workers."""

from __future__ import annotations

import pickle

from loaderx.dataloader.plan import Plan


def pickled(plan: Plan) -> bytes:
    """The plan as bytes.

    Raises:
        TypeError: a part of it doesn't pickle; the message names it.
    """
    try:
        return pickle.dumps(plan, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        part, advice = culprit(plan)
        raise TypeError(
            f"{part} can't be sent to worker processes: {error}; {advice}, or use worker_type='thread'"
        ) from error


def culprit(plan: Plan) -> tuple[str, str]:
    """The part that doesn't pickle, and what would help."""
    for component in plan.sources.components:
        for name, stream in component.items():
            if not pickles(stream):
                return f"streams: {name!r}: {type(stream).__name__}", "open it anew"
    if not pickles(plan.transform):
        return f"transform: {plan.transform.function!r}", "define it at the top level of a module"
    return "the plan of the loader", "which is a fault of loaderx"


def pickles(part: object) -> bool:
    """Whether this part does."""
    try:
        pickle.dumps(part, pickle.HIGHEST_PROTOCOL)
    except Exception:
        return False
    return True
