"""Data of other libraries, and files of other formats, to stores, and stores to them."""

from loaderx.converters.conversion import Conversion
from loaderx.converters.convert import convert

__all__ = ["Conversion", "convert"]
