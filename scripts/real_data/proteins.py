"""Protein sequences: 486,000 of them, 2 to 35,213 residues long, a byte a residue (derived from UniProt, GPL-2+)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .source import Source

FILE = "usr/share/metastudent-data/dataset_201401/BPO/goasp.fasta.psq"


def load(root: Path) -> list[npt.NDArray[Any]]:
    """A BLAST database stores the sequences one after another, each between two zero bytes."""
    residues = np.fromfile(root / FILE, np.uint8)
    zeros = np.flatnonzero(residues == 0)
    return [residues[start + 1 : stop] for start, stop in zip(zeros[:-1].tolist(), zeros[1:].tolist(), strict=True)]


SEQUENCES = Source("protein sequences", "metastudent-data", load)
