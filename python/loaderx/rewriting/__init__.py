"""Stores written anew from stores: the old ones are only read, the new one appears when all of it is there.

- `recode`: with another codec, level or dictionary.
- `concat`: several, one behind another.
- `select`: some records, in any order.
- `split`: each record into one of several stores.

Each says what is to be written as a `Plan` (`plan.py`): records (`picked.py`) of what was opened (`origin.py`), encoded as `encoding.py`
settles. `shares.py`: which record goes to which part of a split.
"""

from loaderx.rewriting.concatenation import concat
from loaderx.rewriting.plan import Rewritten
from loaderx.rewriting.recoding import recode
from loaderx.rewriting.selection import select
from loaderx.rewriting.splitting import split

__all__ = ["Rewritten", "concat", "recode", "select", "split"]
