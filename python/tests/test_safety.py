"""A store is data: nothing of it is ever unpickled, whatever is done with it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from loaderx.dataset import DenseDataset, RaggedDataset
from loaderx.generations import export
from support import run_python

CODE = """
import sys, pickle
from pathlib import Path

found = []
sys.addaudithook(lambda event, _: found.append(event) if event == "pickle.find_class" else None)

import numpy as np
import loaderx
from loaderx.dataloader import DataLoader
from loaderx.dataset import MSDataset, RaggedDataset

folder = Path(sys.argv[1])
found.clear()
with MSDataset(folder / "ms", read_only=True) as ds:
    for stream in ds.streams.values():
        stream[:], stream[0], stream.lengths([0])
    next(DataLoader(ds, batch_size=2))
with RaggedDataset(folder / "old") as ds:
    assert [len(record) for record in ds] == [1, 2, 3]
    ds.delete(0)
for report in MSDataset.verify(folder / "ms").values():
    assert report.ok
loaderx.repair(folder / "ms" / "ragged")
assert not found, found
pickle.loads(pickle.dumps(np.dtype("i4")))
assert found, "the hook does not see it"
"""


def test_nothing_of_a_store_is_unpickled(tmp_path: Path) -> None:
    dtype = np.dtype([("a", "<i4"), ("b", "S3", (2,))])
    with DenseDataset(tmp_path / "ms" / "dense", dtype=dtype, item_shape=()) as dense:
        dense.append(np.zeros(3, dtype))
    with RaggedDataset(tmp_path / "ms" / "ragged", dtype="bfloat16") as ragged:
        ragged.append([np.zeros((i, 2), ragged.dtype) for i in range(3)])
    with RaggedDataset(tmp_path / "plain", dtype="i4") as plain:
        plain.append([np.arange(i + 1, dtype=np.int32) for i in range(3)])
    export(tmp_path / "plain", tmp_path / "old", format="1.5")
    result = run_python(CODE, str(tmp_path))
    assert result.returncode == 0, result.stderr
