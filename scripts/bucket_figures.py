"""The figures of docs/decisions/0016: padding of lognormal lengths under several factors, and how long things take."""

from __future__ import annotations

import time

import numpy as np
from loaderx import Buckets


def main() -> None:
    lengths = np.clip(np.random.default_rng(0).lognormal(5, 0.8, 10_000_000), 16, 512).astype(np.int64)
    print("| records | tokens a step | growth | buckets | steps | left | padding |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    for count in (20_000, 1_000_000):
        for tokens in (4_096, 65_536):
            for growth in (1.05, 1.125, 1.25, 1.5, 2):
                buckets = Buckets(lengths[:count], tokens=tokens, growth=growth)
                print(
                    f"| {count:,} | {tokens:,} | {growth} | {len(buckets.bounds)} | {buckets.batches:,} | {buckets.left_over} "
                    f"| {buckets.padding:.1%} |"
                )
    random = lengths[: len(lengths) // 128 * 128].reshape(-1, 128)
    print(
        f"random batches of 128: {1 - random.mean() / random.max(1).mean():.1%}, to 512: {1 - random.mean() / 512:.1%}"
    )
    cpu, wall = time.process_time(), time.perf_counter()
    buckets = Buckets(lengths, tokens=65_536)
    print(f"10^7 lengths: {time.process_time() - cpu:.2f} s CPU, {time.perf_counter() - wall:.2f} s")
    sampler = buckets.sampler()
    cpu, drawn = time.process_time(), 0
    for step in range(2_000):
        drawn += len(sampler.batch_at(step))
    print(f"a step: {(time.process_time() - cpu) / 2_000 * 1e6:.0f} us CPU, {drawn / 2_000:.0f} records")


if __name__ == "__main__":
    main()
