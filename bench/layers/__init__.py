"""The layers of the bench: each runs its engines and writes a JSON line for each of them."""

from layers import cold, convert, loader, sampler, store

LAYERS = {"sampler": sampler.run, "store": store.run, "cold": cold.run, "loader": loader.run, "convert": convert.run}

__all__ = ["LAYERS"]
