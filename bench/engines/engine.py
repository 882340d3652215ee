"""What the bench knows of an engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

PUBLISHED_1 = ("loaderx==1.5.7",)
# Asks for a NumPy that needs Python 3.12; it runs with what there is for older ones as well.
PUBLISHED_2 = ("--no-deps", "loaderx==2.8.19", "numpy", "ml_dtypes")


@dataclass(frozen=True)
class Engine:
    name: str
    module: str
    """Below `engines/`; for a limit, which of them."""
    codec: str = "raw"
    requires: tuple[str, ...] = ()
    """What its own virtual environment installs; nothing means this project's environment."""
    opening: dict[str, Any] = field(default_factory=dict)
    """More arguments of `open_store` or `open_loader`."""
    reads: str | None = None
    """The engine whose store it reads, if it writes none."""
    role: str = "peer"
    """"own", "peer" or "limit"."""
    native: bool = True
    """For a limit: whether it is a part of the limit program, rather than an engine in Python."""

    @property
    def near(self) -> bool:
        """Whether it is at hand without fetching much."""
        return self.requires in ((), PUBLISHED_1)
