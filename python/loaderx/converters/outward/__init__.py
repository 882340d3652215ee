"""Stores as data of other libraries."""

from loaderx.converters.outward.to_arrow import to_arrow
from loaderx.converters.outward.to_hf import to_hf
from loaderx.converters.outward.to_numpy import to_numpy

__all__ = ["to_arrow", "to_hf", "to_numpy"]
