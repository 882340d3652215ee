"""CSV files that the standard library and pandas wrote."""

from __future__ import annotations

import csv
import gzip
import math
import re
from decimal import Context, Decimal, localcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from converting import (
    FIXTURES,
    assert_holds,
    begins_everywhere,
    converted,
    read_all,
    resumes_everywhere,
    selects,
    texts,
    writes_nothing,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st
from loaderx.converters import convert
from loaderx.converters.text import rows, types

COLUMNS: dict[str, list[str]] = {
    "i": [str(i - 20) for i in range(50)],
    "f": [repr(i / 7) for i in range(50)],
    "b": ["true" if i % 3 else "False" for i in range(50)],
    "day": [f"2020-01-{1 + i % 30:02}" for i in range(50)],
    "when": [f"2020-01-01 00:00:{i:02}.5" for i in range(50)],
    "zip": [f"{i:03}" for i in range(50)],
    "text": [f'a "quoted", {i}\nline' * (i % 3) for i in range(50)],
}


def write(path: Path, columns: dict[str, list[str]], opened: Any = open, **options: Any) -> Path:
    with opened(path, "wt", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, **options)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("packed", [False, True])
def test_types(memory: Path, delimiter: str, packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "ROWS", 7)
    opener = gzip.open if packed else open
    path = write(memory / ("in.csv.gz" if packed else "in.csv"), COLUMNS, opener, delimiter=delimiter)
    streams = converted(path, memory / "out")
    assert_holds(streams["i"], np.arange(50) - 20)
    assert_holds(streams["f"], np.arange(50) / 7)
    assert_holds(streams["b"], np.arange(50) % 3 > 0)
    assert_holds(streams["day"], np.array(COLUMNS["day"], "M8[D]"))
    assert_holds(streams["when"], np.array([one.replace(" ", "T") for one in COLUMNS["when"]], "M8[us]"))
    assert texts(streams["zip"]) == COLUMNS["zip"]
    assert texts(streams["text"]) == COLUMNS["text"]
    begins_everywhere(path)
    if delimiter == ",":
        assert resumes_everywhere(path, memory, most=4, streams=["i", "text"]) == 8
        selects(path, memory)


def test_files(memory: Path) -> None:
    (memory / "in").mkdir()
    write(memory / "in/2.csv", {"x": ["1", "2"], "y": ["a", "b"]})
    write(memory / "in/10.csv", {"x": ["3.5", "4"], "y": ["c", "7"]})
    streams = converted(memory / "in", memory / "out")
    assert_holds(streams["x"], np.array([1, 2, 3.5, 4]))
    assert texts(streams["y"]) == ["a", "b", "c", "7"]
    assert "CSV, 2 files" in writes_nothing(memory / "in", memory)
    write(memory / "in/11.csv", {"x": ["3.5"], "z": ["c"]})
    with pytest.raises(
        ValueError, match=r"11\.csv: expected the columns of .*2\.csv, \['x', 'y'\], found \['x', 'z'\]"
    ):
        convert(memory / "in", memory / "again")


def test_what_is_missing(memory: Path) -> None:
    path = write(memory / "in.csv", {"i": ["1", "", "3"], "f": ["", "2.5", "NA"], "s": ["", "NA", "x"]})
    with pytest.raises(ValueError, match="column 'i', record 1: there is no value; give nulls='mask'"):
        convert(path, memory / "out")
    streams = converted(path, memory / "out", nulls="mask", missing=["", "NA"])
    assert_holds(streams["i"], np.array([1, 0, 3]))
    assert_holds(streams["i.valid"], np.array([True, False, True]))
    assert_holds(streams["f"], np.array([0, 2.5, 0]))
    assert_holds(streams["f.valid"], np.array([False, True, False]))
    assert texts(streams["s"]) == ["", "NA", "x"]
    streams = converted(path, memory / "nan", nulls="nan", missing=["", "NA"], dtypes={"i": "f4"})
    assert_holds(streams["i"], np.array([1, np.nan, 3], np.float32))
    with pytest.raises(ValueError, match="column 'i', record 1: there is no value"):
        convert(path, memory / "none", nulls="nan", missing=["", "NA"])
    with pytest.raises(ValueError, match="nulls: expected one of"):
        convert(path, memory / "none", nulls="drop")


def test_given_dtypes(memory: Path) -> None:
    path = write(memory / "in.csv", {"x": ["1", "2", "300"], "y": ["ab", "c", "d"]})
    streams = converted(path, memory / "out", dtypes={"x": "<u2", "y": "S2"})
    assert_holds(streams["x"], np.array([1, 2, 300], np.uint16))
    assert_holds(streams["y"], np.array([b"ab", b"c", b"d"]))
    assert texts(converted(path, memory / "text", dtypes={"x": "text"})["x"]) == ["1", "2", "300"]
    for dtypes, match in (
        ({"x": "u1"}, r"in\.csv: column 'x', record 2: '300' is no '\|u1'"),
        ({"y": "i8"}, r"in\.csv: column 'y', record 0: 'ab' is no '<i8'"),
        ({"y": "S1"}, r"in\.csv: column 'y', record 0: 'ab' is no '\|S1'"),
        ({"z": "i8"}, r"dtypes: expected some of the columns \['x', 'y'\], found \['z'\]"),
    ):
        with pytest.raises(ValueError, match=match):
            convert(path, memory / "none", dtypes=dtypes, restart=True)


def test_numbers_that_would_change(memory: Path) -> None:
    large = ["1", str(1 << 63), "3"]
    streams = read_all(write(memory / "a.csv", {"x": large, "y": ["9007199254740993", "0.5", "1"]}))
    assert [one.tobytes().decode() for one in streams["x"]] == large
    assert [one.tobytes().decode() for one in streams["y"]] == ["9007199254740993", "0.5", "1"]
    assert read_all(write(memory / "b.csv", {"x": ["1", "1" * 5000]}))["x"][1].tobytes() == b"1" * 5000


@pytest.mark.parametrize(
    "text",
    [
        "9007199254740993.0",
        "-9007199254740993.",
        "9007199254740993e0",
        "0.12345678901234567890",
        "3.14159265358979323846",
        "12345678901234567890.5",
        "007.5",
        "-00.5",
        "01e3",
        "1e-400",
        "1.2345e-322",
        "1" * 100 + ".0",
    ],
)
def test_decimals_that_would_change(tmp_path: Path, text: str) -> None:
    path = write(tmp_path / "in.csv", {"x": ["1.5", text]})
    assert [one.tobytes().decode() for one in read_all(path)["x"]] == ["1.5", text]
    assert_holds(converted(path, tmp_path / "out", dtypes={"x": "<f8"})["x"], np.array([1.5, float(text)]))


@pytest.mark.parametrize(
    "text",
    [
        "0.1",
        "1e-3",
        "1E+05",
        ".5",
        "-0.0",
        "0e9",
        "5.",
        "1.10",
        "1e22",
        "1e23",
        "9007199254740992.0",
        "2.5e-310",
        "5e-324",
    ],
)
def test_decimals_that_measure(tmp_path: Path, text: str) -> None:
    values = read_all(write(tmp_path / "in.csv", {"x": ["1.5", text]}))["x"]
    assert [(one.dtype, float(one)) for one in values] == [(np.dtype("<f8"), 1.5), (np.dtype("<f8"), float(text))]


@given(value=st.floats(allow_nan=False, allow_infinity=False), digits=st.integers(15, 30))
@example(value=2.0**-44, digits=16)  # the shortest text that is this number is not the nearest of its length
def test_numbers_as_programs_print_them_are_numbers(value: float, digits: int) -> None:
    for text in (repr(value), f"{value:.17g}", f"{value:.{digits}e}", f"{value:.{digits}g}"):
        # Rounding may lead beyond all floats; whole numbers without a point have a rule of their own.
        assert math.isinf(float(text)) or text.lstrip("-").isdigit() or types.is_float(text), text


@given(
    digits=st.text("0123456789", min_size=1, max_size=24),
    point=st.integers(0, 24),
    exponent=st.integers(-330, 310) | st.integers(-3, 3),
    sign=st.sampled_from(["", "-", "+"]),
)
def test_decimals_by_exact_arithmetic(digits: str, point: int, exponent: int, sign: str) -> None:
    """The naive twin: what is a number is what its float64 rounds to at the last of its digits, or what `repr` makes of it."""
    text = f"{sign}{digits[:point]}.{digits[point:]}e{exponent}"
    exact, value = Decimal(text), float(text)
    if re.match("[+-]?0[0-9]", text) or math.isinf(value):
        assert not types.is_float(text)
        return
    last = exact.normalize().as_tuple().exponent
    with localcontext(Context(prec=2000, Emin=-9999, Emax=9999)):
        rounded = Decimal(value).quantize(Decimal((0, (1,), int(last)))) if exact else Decimal(0)
    assert types.is_float(text) == (exact in (rounded, Decimal(repr(value))))


def test_encodings(memory: Path) -> None:
    path = memory / "in.csv"
    path.write_bytes("naïve;x\r\né;1\r\n".encode("latin-1"))
    streams = converted(path, memory / "out", encoding="latin-1")
    assert texts(streams["naïve"]) == ["é"]
    with pytest.raises(ValueError, match=r"in\.csv: it can't be read: 'utf-8' codec"):
        convert(path, memory / "none")
    with pytest.raises(ValueError, match="encoding: expected one that has ASCII in it"):
        convert(path, memory / "none", encoding="utf-16")
    path.write_bytes(b"\xef\xbb\xbfa,b\n1,2\n")
    assert sorted(read_all(path)) == ["a", "b"]
    path.write_bytes(b"\xef\xbb\xbf1,2\n3,4")
    assert read_all(path, header=False)["column0"] == [1, 3]


def test_what_is_refused(memory: Path) -> None:
    path = memory / "in.csv"
    for content, match in (
        (b"a,b\n1,2\n3\n", "record 1: expected 2 fields, found 1"),
        (b"a,a\n1,2\n", "its stream would have the name 'a'"),
        (b"", "there are no columns"),
        (b'a,b\n1,"2\n', "it can't be read: unexpected end of data"),
        (b"a,\n1,2\n", "can't have the name ''"),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=match):
            convert(path, memory / "out")
    (memory / "in.csv.gz").write_bytes(gzip.compress(b"a\n1\n" * 999)[:-9])
    with pytest.raises(ValueError, match="it can't be read"):
        convert(memory / "in.csv.gz", memory / "out")


@settings(max_examples=60)
@given(
    table=st.integers(1, 4).flatmap(
        lambda width: st.lists(
            st.lists(
                st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), max_size=6),
                min_size=width,
                max_size=width,
            ),
            min_size=1,
            max_size=12,
        )
    ),
    size=st.integers(1, 5),
)
def test_any_text(table: list[list[str]], size: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("csv") / "in.csv"
    names = [f"c{at}" for at in range(len(table[0]))]
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([names, *table])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "ROWS", size)
        found = read_all(path, delimiter=",", dtypes=dict.fromkeys(names, "text"))
        begins_everywhere(path, delimiter=",", dtypes=dict.fromkeys(names, "text"), most=3)
    columns = dict(zip(names, zip(*table, strict=True), strict=True))
    assert {name: [one.tobytes().decode() for one in found[name]] for name in names} == {
        name: list(column) for name, column in columns.items()
    }


def test_a_file_in_the_repository(memory: Path) -> None:
    number = np.arange(20)
    streams = converted(FIXTURES / "csv" / "pandas.csv", memory / "out")
    assert_holds(streams["number"], number)
    assert_holds(streams["half"], number / 2)
    assert_holds(streams["even"], number % 2 == 0)
    assert_holds(streams["day"], np.datetime64("2020-01-01") + number)
    assert texts(streams["text"]) == [f'line {i}\n"quoted", {i}' for i in number]


@pytest.mark.parametrize("text", ["1e400", "-1e999"])
def test_numbers_beyond_all_floats_are_not_infinity(tmp_path: Path, text: str) -> None:
    (tmp_path / "in.csv").write_text(f"a,b\n{text},inf\n1.5,2\n")
    streams = converted(tmp_path / "in.csv", tmp_path / "out")
    assert texts(streams["a"]) == [text, "1.5"]
    assert_holds(streams["b"], np.array([np.inf, 2.0]))


@pytest.mark.parametrize(
    ("dtype", "text", "fits"),
    [
        ("<f2", "70000", "65504"),
        ("<f4", "1e39", "-Infinity"),
        ("<f8", "1e400", "1e308"),
        ("M8[us]", "2020-01-01 00:00:00.1234567", "2020-01-01 00:00:00.123456"),
        ("M8[D]", "2020-01-01 12:00", "2020-01-01"),
    ],
)
def test_texts_that_a_given_dtype_would_change(tmp_path: Path, dtype: str, text: str, fits: str) -> None:
    (tmp_path / "in.csv").write_text(f"a\n{fits}\n{text}\n")
    with pytest.raises(ValueError, match=r"in\.csv: column 'a', record 1: "):
        convert(tmp_path / "in.csv", tmp_path / "out", dtypes={"a": dtype})
    (tmp_path / "in.csv").write_text(f"a\n{fits}\n{fits}\n")
    assert converted(tmp_path / "in.csv", tmp_path / "out", dtypes={"a": dtype})["a"].dtype == np.dtype(dtype)


def test_missing_is_a_list(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("a\nN\nNA\n")
    with pytest.raises(TypeError, match="missing: expected a list of texts, found 'NA'"):
        convert(tmp_path / "in.csv", tmp_path / "out", missing="NA")
