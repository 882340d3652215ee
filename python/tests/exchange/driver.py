"""Runs under the published package's interpreter: one JSON request a line on stdin, one JSON reply a line on stdout.

Arrays travel as .npz files: a dense batch as "rows", ragged records as "0", "1", ... in order.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from loaderx.dataset import DenseDataset, RaggedDataset
from loaderx.utils import from_iterator, from_numpy, train_dict

KINDS: dict[str, Any] = {"dense": DenseDataset, "ragged": RaggedDataset}


def load(path: str) -> Any:
    with np.load(path) as file:
        return file["rows"] if "rows" in file else [file[str(i)] for i in range(len(file.files))]


def read_bytes(path: str | None) -> bytes | None:
    return None if path is None else Path(path).read_bytes()


def write(request: dict[str, Any]) -> None:
    data = load(request["data"])
    options = {"codec": request["codec"], "dict_bytes": read_bytes(request["dict"])}
    if request["kind"] == "dense":
        from_numpy(request["path"], data, **options)
    else:
        from_iterator(request["path"], iter(data), np.dtype(request["dtype"]), **options)


def read(request: dict[str, Any]) -> dict[str, list[int]]:
    with KINDS[request["kind"]](request["path"]) as dataset:
        batch = dataset[request["indices"]] if request["indices"] is not None else dataset[:]
        lengths = dataset.lengths(np.arange(len(dataset)))
    arrays = {"rows": batch} if request["kind"] == "dense" else {str(i): record for i, record in enumerate(batch)}
    np.savez(request["out"], **arrays)
    return {"lengths": [int(n) for n in lengths]}


def append(request: dict[str, Any]) -> None:
    with KINDS[request["kind"]](request["path"]) as dataset:
        dataset.append(load(request["data"]))


def delete(request: dict[str, Any]) -> None:
    with KINDS[request["kind"]](request["path"]) as dataset:
        dataset.delete(np.array(request["indices"]))


def compact(request: dict[str, Any]) -> Any:
    with KINDS[request["kind"]](request["path"]) as dataset:
        dataset.compact()
        return dataset.stats()


def train(request: dict[str, Any]) -> None:
    Path(request["out"]).write_bytes(train_dict(load(request["data"]), tier="fast"))


def main() -> None:
    operations = {f.__name__: f for f in (write, read, append, delete, compact, train)}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = {"done": operations[request["op"]](request)}
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


main()
