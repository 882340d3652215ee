"""What an engine's process does, by layer. Imports NumPy and what is in this folder: it runs in each engine's environment."""

from typing import Any

from workers.convert import ConvertWorker
from workers.loader import LoaderWorker
from workers.sampler import SamplerWorker
from workers.store import StoreWorker

WORKERS: dict[str, Any] = {
    "store": StoreWorker,
    "cold": StoreWorker,
    "loader": LoaderWorker,
    "sampler": SamplerWorker,
    "convert": ConvertWorker,
}
