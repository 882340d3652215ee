"""Recorded data sets that ship as Debian packages, one module each. They are fetched, never kept in the repository."""

from . import fashion_mnist, motion, proteins, textures
from .source import Source

__all__ = ["SOURCES", "Source"]

SOURCES: tuple[Source, ...] = (
    fashion_mnist.IMAGES,
    fashion_mnist.LABELS,
    proteins.SEQUENCES,
    textures.FILES,
    motion.WINDOWS,
    motion.CLIPS,
)
