"""What is compared: tables of engines, each a module with the same functions.

    dense/, ragged/   write, open_store, gather, close; prepare, where what it writes has another form than the truth
    loaders/          write, open_loader, arrays, close
    samplers/         make

An engine module imports NumPy and what it measures, nothing of this bench: it runs in the environment of what
it measures.
"""

from engines.engine import Engine
from engines.loaders import AUGMENTED, LOADERS
from engines.samplers import SAMPLERS
from engines.stores import COLD, DENSE, RAGGED, RAGGED_SHORT

__all__ = ["AUGMENTED", "COLD", "DENSE", "LOADERS", "RAGGED", "RAGGED_SHORT", "SAMPLERS", "Engine"]
