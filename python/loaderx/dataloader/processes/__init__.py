"""Worker processes of a loader: each opens the streams, makes its share of the steps, and hands arrays over in shared memory.

- Consumer: `pipeline.py` is `Processes`, what the loader talks to; `handle.py` is one worker as seen from there, `reader.py` the
  thread that takes in what workers send, `leases.py` the hold on their memory. `starting.py`: how they start, `sending.py`: with what.
- Worker: `worker.py` is its life, `watchdog.py` what ends it, `slots.py` its memory.
- Both: `channel.py` is what passes between the two, `memory.py` anonymous shared memory, `packing.py` a result as bytes in it,
  `failures.py` exceptions that cross, and what a dead worker is.
"""

from loaderx.dataloader.processes.pipeline import Processes

__all__ = ["Processes"]
