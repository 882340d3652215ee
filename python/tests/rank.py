"""What a rank of `test_distributed.py` does."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from loaderx.dataloader import DataLoader
from loaderx.dataset import MSDataset


def work(folder: Path, rank: int) -> None:
    """The job is the file `job` in the folder; what was found goes to the file named after the rank."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    job = json.loads((folder / "job").read_text())
    world_size = job["world_size"]
    dist.init_process_group("gloo", init_method=f"file://{folder / 'rendezvous'}", rank=rank, world_size=world_size)
    with MSDataset(job["root"], read_only=True) as ds:
        arguments = {
            "batch_size": job["batch_size"],
            "uneven": True,
            "mode": job.get("mode", 2),
            **job.get("given", {}),
        }
        with DataLoader(ds, **arguments) as loader:
            if "state" in job:
                loader.load_state_dict(job["state"])
            steps = []
            for batch in itertools.islice(loader, job["steps"]):
                numbers = batch["index"]
                assert all(np.array_equal(t, np.full(i % 5, i)) for t, i in zip(batch["token"], numbers, strict=True))
                steps.append(numbers.tolist())
                # A step of training: every rank has its say.
                total = torch.tensor(float(numbers.sum()))
                dist.all_reduce(total)
            state = loader.state_dict()
    (folder / str(rank)).write_text(json.dumps({"steps": steps, "state": state}))
    dist.barrier()
    dist.destroy_process_group()
