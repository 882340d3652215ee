"""The machine block: what a figure means nothing without."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

from loaderx._core import __version__


def describe() -> dict[str, str]:
    """What the figures were taken on, by name."""
    return {
        "processor": processor(),
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "python": f"{platform.python_version()}, NumPy {version('numpy')}",
        "loaderx": __version__,
    }


def processor() -> str:
    """The processor's name, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
