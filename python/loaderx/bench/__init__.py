"""The own part of the bench, on your machine and your store: `python -m loaderx.bench [STORE]`."""
