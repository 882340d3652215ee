"""A client of the published package, which runs in a process and an environment of its own (`driver.py`)."""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

DRIVER = Path(__file__).with_name("driver.py")
Records = npt.NDArray[Any] | Sequence[npt.NDArray[Any]]


class PublishedError(Exception):
    """The published package raised; the text is its error."""


class Published:
    def __init__(self, interpreter: Path, scratch: Path) -> None:
        self._scratch = scratch
        self._names = (scratch / str(i) for i in itertools.count())
        # Isolated mode: neither this project's package nor PYTHONPATH is visible to it.
        self._process = subprocess.Popen(
            [str(interpreter), "-I", str(DRIVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdin
        assert self._process.stdout
        self._requests, self._replies = self._process.stdin, self._process.stdout

    def close(self) -> None:
        self._requests.close()
        self._process.wait(timeout=30)
        self._replies.close()

    def _ask(self, op: str, **request: Any) -> Any:
        print(json.dumps({"op": op, **request}, default=str), file=self._requests, flush=True)
        line = self._replies.readline()
        if not line:
            raise PublishedError(f"the process ended with status {self._process.wait()} during {op!r}")
        reply = json.loads(line)
        if "error" in reply:
            raise PublishedError(reply["error"])
        return reply["done"]

    def _save(self, data: Records) -> Path:
        path = next(self._names).with_suffix(".npz")
        if isinstance(data, np.ndarray):
            np.savez(path, rows=data)
        else:
            np.savez(path, **{str(i): record for i, record in enumerate(data)})  # type: ignore[arg-type]
        return path

    def _save_bytes(self, content: bytes | None) -> Path | None:
        if content is None:
            return None
        path = next(self._names).with_suffix(".bin")
        path.write_bytes(content)
        return path

    def write_dense(self, path: Path, rows: npt.NDArray[Any], codec: str, dict_bytes: bytes | None = None) -> None:
        self._ask(
            "write",
            kind="dense",
            path=path,
            data=self._save(rows),
            codec=codec,
            dict=self._save_bytes(dict_bytes),
        )

    def write_ragged(
        self,
        path: Path,
        records: Sequence[npt.NDArray[Any]],
        dtype: str,
        codec: str,
        dict_bytes: bytes | None = None,
    ) -> None:
        data, dict_path = self._save(list(records)), self._save_bytes(dict_bytes)
        self._ask("write", kind="ragged", path=path, data=data, dtype=dtype, codec=codec, dict=dict_path)

    def read_dense(self, path: Path, indices: Sequence[int] | None = None) -> npt.NDArray[Any]:
        out = next(self._names).with_suffix(".npz")
        self._ask("read", kind="dense", path=path, indices=indices, out=out)
        with np.load(out) as file:
            rows: npt.NDArray[Any] = file["rows"]
            return rows

    def read_ragged(self, path: Path, indices: Sequence[int] | None = None) -> list[npt.NDArray[Any]]:
        out = next(self._names).with_suffix(".npz")
        self._ask("read", kind="ragged", path=path, indices=indices, out=out)
        with np.load(out) as file:
            return [file[str(i)] for i in range(len(file.files))]

    def append(self, kind: str, path: Path, records: Records) -> None:
        self._ask("append", kind=kind, path=path, data=self._save(records))

    def delete(self, kind: str, path: Path, indices: Sequence[int]) -> None:
        self._ask("delete", kind=kind, path=path, indices=list(indices))

    def compact(self, kind: str, path: Path) -> dict[str, int]:
        stats: dict[str, int] = self._ask("compact", kind=kind, path=path)
        return stats

    def train_dict(self, rows: npt.NDArray[Any]) -> bytes:
        out = next(self._names).with_suffix(".bin")
        self._ask("train", data=self._save(rows), out=out)
        return out.read_bytes()
