"""How much is measured."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

CHECK_BYTES = 2 << 20


@dataclass(frozen=True)
class Plan:
    name: str
    batch: int
    rounds: int
    seconds: float
    """Aim for one engine's share of one round."""
    writes: int
    """How often each store is written, unless that takes long."""
    write_seconds: float
    """A store that takes longer is written once."""
    records: int | None = None
    """At most so many records a workload, fewer of large ones, though never less than a batch."""
    without: tuple[str, ...] = ()
    """Codecs that are left out."""

    def count(self, records: int, record_bytes: int) -> int:
        """How many of a workload's records take part."""
        if self.records is None:
            return records
        return min(records, self.records, max(self.batch, CHECK_BYTES // record_bytes))

    def describe(self) -> dict[str, Any]:
        return asdict(self)


FULL = Plan("full", batch=256, rounds=7, seconds=0.4, writes=3, write_seconds=2.0)
QUICK = Plan("quick", batch=256, rounds=5, seconds=0.3, writes=2, write_seconds=2.0, without=("zstd_dict",))
CHECK = Plan("check", batch=32, rounds=2, seconds=0.02, writes=1, write_seconds=0.0, records=100)
