"""The own part of the bench, on your machine and your store: `python -m loaderx.bench [STORE]`.

- `__main__.py`: the command. `store.py`: what is measured of one store; `example.py`: stores to measure when none is given.
- `timing.py`: rounds and their figures. `show.py`: the table. `machine.py`: what the figures were taken on.
"""
