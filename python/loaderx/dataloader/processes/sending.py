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
    for name, stream in plan.streams.items():
        if not pickles(stream):
            return f"streams: {name!r}: {type(stream).__name__}", "open it anew"
    if not pickles(plan.transform):
        return f"transform: {plan.transform!r}", "define it at the top level of a module"
    return f"the order ({type(plan.draws).__name__})", "let it be something that pickles"


def pickles(part: object) -> bool:
    """Whether this part does."""
    try:
        pickle.dumps(part, pickle.HIGHEST_PROTOCOL)
    except Exception:
        return False
    return True
