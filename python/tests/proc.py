"""What Linux tells of processes' memory. No test that needs it runs elsewhere."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

needs_proc = pytest.mark.skipif(not os.access("/proc/self/smaps_rollup", os.R_OK), reason="no /proc that tells memory")


def status(field: str, process: int | str = "self") -> int:
    """A field of /proc/PID/status, such as RssAnon, in bytes."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{field}:"))


def shown(process: int | str = "self") -> int:
    """Bytes of files that are resident through maps: those of a tmpfs count as shared memory."""
    return status("RssFile", process) + status("RssShmem", process)


def pss(processes: Iterable[int]) -> int:
    """The memory of these processes together, in bytes; what several of them share counts once."""
    texts = [Path(f"/proc/{process}/smaps_rollup").read_text() for process in processes]
    return sum(int(re.findall(r"^Pss: +(\d+) kB", text, re.MULTILINE)[0]) << 10 for text in texts)


def resident_below(folder: Path) -> int:
    """Bytes of the files below `folder` that are resident in this process, by their names."""
    total, inside = 0, False
    for line in Path("/proc/self/smaps").read_bytes().decode(errors="replace").splitlines():
        if re.match("[0-9a-f]+-[0-9a-f]+ ", line):
            inside = f" {folder}/" in line
        elif inside and line.startswith("Rss:"):
            total += int(line.split()[1]) << 10
    return total
