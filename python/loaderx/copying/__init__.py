"""Records from one store, of whatever kind, into a new one.

- `place.py`: where a new store is made until all of it is there.
- `block.py`: what is copied at a time. `ahead.py`: the next of it is read meanwhile.
- `snapshot.py`: the records of a store of today as a source.
- `writing.py`: blocks into a new store, and the comparison of the two.
"""
