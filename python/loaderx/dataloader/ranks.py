"""Which part of each batch is whose: the rank of this process, and how many there are."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from loaderx.arguments import integer


class Ranks(NamedTuple):
    """Rank r of W takes the places [floor(B r / W), floor(B (r + 1) / W)) of a batch of B: in rank order they are the batch."""

    rank: int
    world_size: int

    def places(self, batch_size: int) -> range:
        """The places of this rank."""
        return range(batch_size * self.rank // self.world_size, batch_size * (self.rank + 1) // self.world_size)


def checked_ranks(
    rank: int | None, world_size: int | None, batch_sizes: Sequence[int], uneven: bool, remedy: str = ""
) -> Ranks:
    """The ranks that the arguments say, or else torch.distributed or JAX if initialised, or else 0 of 1.

    Raises:
        TypeError: no integers.
        ValueError: one of the two without the other, a rank that is none of the world's, or a world that doesn't divide each batch
            unless `uneven`; the message has the other `remedy`.
    """
    if (rank is None) != (world_size is None):
        given, missing = ("rank", "world_size") if world_size is None else ("world_size", "rank")
        raise ValueError(f"{given}: expected {missing} with it, found {missing}=None")
    if rank is None or world_size is None:
        ranks = found_ranks()
    else:
        ranks = Ranks(integer(rank, "rank"), integer(world_size, "world_size", minimum=1))
    if ranks.rank >= ranks.world_size:
        raise ValueError(
            f"rank: expected 0 to {ranks.world_size - 1} in a world of {ranks.world_size}, found {ranks.rank}"
        )
    odd = [size for size in batch_sizes if size % ranks.world_size]
    if odd and not uneven:
        raise ValueError(
            f"batch_size: expected a multiple of the world size {ranks.world_size}, found {odd[0]}; {remedy}"
            "uneven=True lets the sizes of the ranks' parts differ by one"
        )
    return ranks


def found_ranks() -> Ranks:
    """What a framework that this process already uses says. None is imported, and none is initialised, by asking."""
    torch: Any = sys.modules.get("torch.distributed")
    if says(torch, "is_available") and says(torch, "is_initialized"):
        return Ranks(torch.get_rank(), torch.get_world_size())
    jax: Any = sys.modules.get("jax")
    if says(getattr(jax, "distributed", None), "is_initialized"):
        return Ranks(jax.process_index(), jax.process_count())
    return Ranks(0, 1)


def says(module: Any, question: str) -> bool:
    """What a function without arguments answers; no, where a module is missing, half imported or of another age."""
    function = getattr(module, question, None)
    return function is not None and bool(function())
