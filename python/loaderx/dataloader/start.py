"""Which kind of pipeline makes the batches."""

from __future__ import annotations

from loaderx.dataloader.native import Native
from loaderx.dataloader.pipeline import Options, Pipeline
from loaderx.dataloader.plan import Plan
from loaderx.dataloader.threads import Threads


def pipeline_for(plan: Plan, step: int, options: Options) -> Pipeline:
    """A pipeline that begins at `step`. It is not started yet."""
    if options.worker_type == "process":
        from loaderx.dataloader.processes import Processes  # it takes longer to import than most programs need it

        return Processes(plan, step, options)
    if plan.is_native and plan.transform.is_identity:
        return Native(plan, step, options)
    return Threads(plan, step, options)
