"""Data of other libraries, and files of other formats, to stores, and stores to them."""

from loaderx.converters.conversion import Conversion
from loaderx.converters.convert import convert
from loaderx.converters.outward import to_arrow, to_hf, to_numpy

__all__ = ["Conversion", "convert", "to_arrow", "to_hf", "to_numpy"]
