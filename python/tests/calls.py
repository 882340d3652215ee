"""How many functions a piece of code calls, in Python and of Python's: more for more records is a step in Python for each.

It runs twice, and the second time counts: the first one of a process is asked more.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def calls(work: Callable[[], Any]) -> int:
    count = 0

    def look(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    work()
    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()  # others may be called back
    sys.setprofile(look)
    try:
        work()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    return count
