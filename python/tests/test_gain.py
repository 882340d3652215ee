"""What a dictionary gains, measured on records that did not train it."""

from __future__ import annotations

import copy
import itertools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loaderx import DenseDataset, RaggedDataset, Zrecord, ZrecordError, concat, recode, train_dict
from loaderx.utils import dictionary_gain, from_iterator, from_numpy, gain, measured_dict
from support import images

DATA = images(4000)
NOISE = np.random.default_rng(1).integers(0, 256, (4000, 64), np.uint8)


def test_it_is_measured_as_stores_are_written(tmp_path: Path) -> None:
    dictionary = train_dict(DATA[::2], tier="fast")
    found = dictionary_gain(DATA[1::2], dictionary)
    sizes = {}
    for codec, given in (("zstd", None), ("zstd_dict", dictionary)):
        with DenseDataset(tmp_path / codec, "u1", (8, 8), codec, level=19) as dataset:
            if given:
                dataset.install_dict(given)
            dataset.append(DATA[1::2])
            sizes[codec] = dataset.stats()["live_bytes"]
    assert found == (2000, 2000 * 64, sizes["zstd"], sizes["zstd_dict"], len(dictionary), 19)
    assert found.gain == 1 - sizes["zstd_dict"] / sizes["zstd"] > 0.1
    assert found.ratio == 2000 * 64 / sizes["zstd_dict"]
    assert str(found).startswith(f"the dictionary saves {found.gain:.1%}")


def test_every_source(tmp_path: Path) -> None:
    from_numpy(tmp_path / "dense", DATA)
    from_iterator(tmp_path / "ragged", DATA, np.uint8)
    sources: list[Any] = [
        DATA,
        list(DATA),
        [row.tobytes() for row in DATA],
        DenseDataset(tmp_path / "dense"),
        RaggedDataset(tmp_path / "ragged"),
        Zrecord(tmp_path / "dense", read_only=True),
    ]
    trained = [measured_dict(source, "fast") for source in sources]
    assert len(set(trained)) == 1
    assert len({dictionary_gain(source, trained[0][0], level=3) for source in sources}) == 1
    assert train_dict(sources[-1], "fast") == train_dict(DATA, "fast")


def test_what_is_held_out_does_not_train(monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[bytes] = []
    measured: list[bytes] = []

    def training(samples: Any, size: int) -> bytes:
        trained.extend(sample.tobytes() for sample in samples)
        return train_dict(DATA, "fast")

    def measuring(records: Any, chosen: Any, *_: Any) -> None:
        packed, offsets = records.gather_packed(chosen)
        measured.extend(packed[a:b].tobytes() for a, b in itertools.pairwise(offsets))

    monkeypatch.setattr(gain, "trained_on", training)
    monkeypatch.setattr(gain, "measured", measuring)
    measured_dict(NOISE)
    assert (len(trained), len(measured)) == (4000 - 250, 250)
    assert not set(trained) & set(measured)


def test_no_gain_and_too_few_to_tell(tmp_path: Path) -> None:
    _, found = measured_dict(NOISE)
    assert found is not None
    assert found.gain <= 0
    assert str(found).startswith("the dictionary gains nothing, 'raw' is the better codec")
    _, unknown = measured_dict(images(100))
    assert unknown is None
    from_numpy(tmp_path / "noise", NOISE)
    from_numpy(tmp_path / "few", images(100))
    assert "gains nothing" in str(recode(tmp_path / "noise", tmp_path / "a", "zstd_dict", dict_tier="fast"))
    done = recode(tmp_path / "few", tmp_path / "b", "zstd_dict", dict_tier="fast")
    assert done.gains == {"": None}
    assert "too few records to hold some out" in str(done)


def test_only_what_is_trained_is_told(tmp_path: Path) -> None:
    from_numpy(tmp_path / "raw", DATA, codec="raw")
    done = recode(tmp_path / "raw", tmp_path / "trained", "zstd_dict")
    assert done.gains[""] is not None
    assert done.gains[""].gain > 0
    kept = recode(tmp_path / "trained", tmp_path / "kept")
    assert kept.gains == {}
    assert str(kept) == "4,000 records"
    assert (tmp_path / "kept" / "dict.zr").read_bytes() == (tmp_path / "trained" / "dict.zr").read_bytes()
    assert recode(tmp_path / "kept", tmp_path / "again", dict_tier="fast").gains.keys() == {""}
    assert (tmp_path / "again" / "dict.zr").stat().st_size <= 32 << 10
    both = concat([tmp_path / "trained", tmp_path / "raw"], tmp_path / "both", dict_tier="fast")
    assert both.gains.keys() == {""}
    assert np.array_equal(DenseDataset(tmp_path / "both")[:], np.concatenate([DATA, DATA]))


def test_an_array_that_trains_its_own(tmp_path: Path) -> None:
    done = from_numpy(tmp_path / "store", DATA, "zstd_dict")
    assert (int(done), str(done), f"{done:,}") == (4000, "4000", "4,000")
    assert (tmp_path / "store" / "dict.zr").read_bytes() == measured_dict(DATA)[0]
    assert done.gains == {"": measured_dict(DATA)[1]}
    assert from_numpy(tmp_path / "given", DATA, "zstd_dict", measured_dict(DATA)[0]).gains == {}
    for again in (copy.deepcopy(done), pickle.loads(pickle.dumps(done))):
        assert (again, again.gains) == (done, done.gains)


def test_of_long_rows_only_the_beginning_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.lib.stride_tricks.as_strided(DATA.reshape(-1), (800, 200_000), (64, 1), writeable=False)

    def whole(*_: Any) -> None:
        raise AssertionError("a record was read whole")

    monkeypatch.setattr(gain.Listed, "_bytes", whole)
    _, found = measured_dict(rows, "fast")
    assert found is None  # of 4 MiB in pieces of 128 KiB there are too few


def test_what_can_not_be_measured(tmp_path: Path) -> None:
    dictionary = train_dict(DATA, "fast")
    cases: list[tuple[Any, type[Exception], str]] = [
        (iter(DATA), TypeError, "found"),
        (b"abc", TypeError, "found bytes"),
        ([], ValueError, "found none"),
        ([b""], ValueError, "found none"),
        (np.array(3), ValueError, r"found shape \(\)"),
    ]
    for source, error, text in cases:
        with pytest.raises(error, match=text):
            dictionary_gain(source, dictionary)
    with pytest.raises(ValueError, match="no zstd dictionary"):
        dictionary_gain(DATA, b"no dictionary")
    from_numpy(tmp_path / "src", np.arange(3))
    with pytest.raises(ZrecordError, match="choose another codec"):
        recode(tmp_path / "src", tmp_path / "dst", "zstd_dict")
    assert [path.name for path in tmp_path.iterdir()] == ["src"]
