"""One of the processes of `test_a_global_batch`: STREAMS PROCESSES DEVICES RANK. Four devices in all."""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path

folder, processes, devices, rank = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402
from loaderx.dataloader import DataLoader  # noqa: E402
from loaderx.dataset import MSDataset  # noqa: E402
from loaderx.jax import global_batch, to_device  # noqa: E402

BATCH = 16
STEPS = 6


def coordinator() -> str:
    """An address on loopback that rank 0 has chosen."""
    file = folder / "port"
    if rank == 0:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        file.with_suffix(".new").write_text(str(port))
        file.with_suffix(".new").rename(file)
    deadline = time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < deadline, "rank 0 is not there"
        time.sleep(0.01)
    return f"127.0.0.1:{file.read_text()}"


def main() -> None:
    if processes > 1:
        jax.distributed.initialize(coordinator(), processes, rank)
    assert len(jax.devices()) == 4
    assert len(jax.local_devices()) == devices
    mesh = Mesh(np.array(jax.devices()), ("data",))
    sharding = NamedSharding(mesh, PartitionSpec("data"))
    whole = global_batch(sharding)
    with (
        MSDataset(folder, read_only=True) as streams,
        DataLoader(streams, batch_size=BATCH, rank=0, world_size=1) as twin,
        DataLoader(streams, batch_size=BATCH, transform=whole) as loader,
    ):
        assert (loader.rank, loader.world_size) == (rank, processes)  # as JAX says
        for _ in range(STEPS):
            batch, expected = next(loader), next(twin)
            for name, values in batch.items():
                assert values.shape == expected[name].shape
                assert values.sharding == sharding
                for shard in values.addressable_shards:
                    assert shard.data.shape[0] == BATCH // 4
                    assert np.array_equal(np.asarray(shard.data), expected[name][shard.index])
            total = jax.jit(lambda image: image.sum())(batch["image"])
            assert float(total) == float(expected["image"].sum())
    if processes == 1:
        array = np.arange(32, dtype=np.float32).reshape(8, 4)
        moved = to_device(sharding)({"x": array})["x"]
        assert moved.sharding == sharding
        assert np.array_equal(np.asarray(moved), array)


if __name__ == "__main__":
    main()
