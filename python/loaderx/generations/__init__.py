"""Stores of other generations of loaderx.

- `migrate`: those of 0.5 to 1.4, rewritten as stores of today. `source` reads them: `layout` is their table, `views` and `deflate` decode,
  `meaning` is their schema.
- `export`: stores of today as 1.5 has them.

Both go by `loaderx.copying`: block by block into a folder beside the new store, compared in the end, then moved to its place.
"""

from loaderx.generations.exporting import export
from loaderx.generations.migration import migrate

__all__ = ["export", "migrate"]
