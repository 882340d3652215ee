from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from converting import (
    assert_holds,
    begins_everywhere,
    converted,
    needed,
    resumes_everywhere,
    selects,
    small_parts,
    texts,
    writes_nothing,
)
from loaderx.converters import convert
from support import Array

Image = needed("PIL.Image")
NAMES = ["cat/1.png", "cat/2.JPG", "cat/10.png", "dog/a.webp", "dog/deep/er/b.bmp", "n2/x.gif", "n10/x.tiff"]


def picture(seed: int, shape: tuple[int, ...] = (20, 30, 3)) -> Array:
    """Something that compresses well without loss of much."""
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    values = (rows * 5 + columns * 3 + seed * 11).astype(np.uint8)
    return np.dstack([values] * shape[2]) if len(shape) == 3 else values


def encoded(array: Array, form: str = "PNG", **options: Any) -> bytes:
    out = io.BytesIO()
    Image.fromarray(array).save(out, form, **options)
    return out.getvalue()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Images of all kinds in folders, and other things beside them."""
    root = tmp_path / "in"
    forms = {".png": "PNG", ".JPG": "JPEG", ".webp": "WEBP", ".bmp": "BMP", ".gif": "GIF", ".tiff": "TIFF"}
    for seed, name in enumerate(NAMES):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded(picture(seed, (20 + seed, 30, 3)), forms[path.suffix]))
    (root / "README.txt").write_text("no image")
    (root / ".hidden.png").write_bytes(b"")
    (root / "cat" / "_x.png").write_bytes(b"")
    (root / "empty").mkdir()
    return root


def test_files_as_they_are(tmp_path: Path, folder: Path) -> None:
    streams = converted(folder, tmp_path / "out")
    assert texts(streams["path"]) == NAMES
    assert [record.tobytes() for record in streams["image"].records] == [(folder / name).read_bytes() for name in NAMES]
    assert_holds(streams["label"], np.array([0, 0, 0, 1, 1, 2, 3]), "<i8")
    assert streams["label"].metadata == {"classes": ["cat", "dog", "n2", "n10"]}


@pytest.mark.parametrize(("mode", "shape"), [("RGB", (8, 12, 3)), ("L", (8, 12)), ("RGBA", (8, 12, 4))])
@pytest.mark.parametrize("fit", ["stretch", "crop"])
def test_images_decoded_and_resized(tmp_path: Path, folder: Path, mode: Any, shape: tuple[int, ...], fit: Any) -> None:
    streams = converted(folder, tmp_path / "out", decode=True, size=(8, 12), mode=mode, fit=fit)
    assert streams["image"].item_shape == shape
    for at, name in enumerate(NAMES):
        with Image.open(folder / name) as image:
            whole = image.convert(mode)
        if fit == "crop":
            height = 20 + at
            assert whole.size == (30, height)
            margin = (height - 20) / 2
            whole = whole.resize((12, 8), Image.Resampling.BICUBIC, box=(0, margin, 30, height - margin))
        else:
            whole = whole.resize((12, 8), Image.Resampling.BICUBIC)
        assert np.array_equal(streams["image"].records[at], np.asarray(whole)), name


def test_an_image_of_the_size_wanted_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x.png").write_bytes(encoded(picture(3)))
    streams = converted(tmp_path / "in", tmp_path / "out", decode=True, size=(20, 30))
    assert_holds(streams["image"], picture(3)[None])
    assert sorted(streams) == ["image", "path"]


def test_images_are_put_upright(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    exif = Image.Exif()
    exif[0x0112] = 6
    (tmp_path / "in" / "x.png").write_bytes(encoded(picture(1), exif=exif.tobytes()))
    streams = converted(tmp_path / "in", tmp_path / "out", decode=True, size=(30, 20))
    assert_holds(streams["image"], np.rot90(picture(1), -1)[None])


@pytest.mark.parametrize("options", [{}, {"decode": True, "size": (5, 5)}])
def test_it_begins_and_resumes_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path, options: Any
) -> None:
    small_parts(monkeypatch, 2500)
    begins_everywhere(folder, **options)
    assert resumes_everywhere(folder, tmp_path, most=3, **options) > 1


def test_each_stream_alone(tmp_path: Path, folder: Path) -> None:
    selects(folder, tmp_path)


def test_a_dry_run_says_what_it_would_do(tmp_path: Path, folder: Path) -> None:
    said = writes_nothing(folder, tmp_path, decode=True, size=(8, 9))
    assert "a folder of images, 7 files" in said
    assert "image: dense (8, 9, 3) '|u1', zstd, from files, decoded, RGB, resized" in said
    assert "label: dense () '<i8', zstd, from 4 folders: cat, dog, n2, ..." in said


def test_images_that_cannot_be_decoded(tmp_path: Path, folder: Path) -> None:
    broken = folder / "cat" / "2.JPG"
    broken.write_bytes(broken.read_bytes()[:300])
    with pytest.raises(ValueError, match=r"2\.JPG: this image can't be decoded: .*on_error='mask'"):
        convert(folder, tmp_path / "refused" / "a", decode=True, size=(4, 4))
    streams = converted(folder, tmp_path / "b", decode=True, size=(4, 4), on_error="mask")
    assert streams["image.valid"].records.tolist() == [name != "cat/2.JPG" for name in NAMES]  # type: ignore[attr-defined]
    assert not np.asarray(streams["image"].records[1]).any()
    assert converted(folder, tmp_path / "c")["image"].records[1].tobytes() == broken.read_bytes()


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_the_limit_of_pixels_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 280)
    with pytest.raises(ValueError, match=r"1\.png: this image can't be decoded: .*decompression bomb"):
        convert(folder, tmp_path / "out", decode=True, size=(4, 4))


def test_folders_and_links(tmp_path: Path, folder: Path) -> None:
    (folder / "top.png").write_bytes(encoded(picture(0)))
    with pytest.raises(ValueError, match="top.png: this image is in no folder.*labels=False"):
        convert(folder, tmp_path / "a")
    assert sorted(converted(folder, tmp_path / "b", labels=False)) == ["image", "path"]
    (folder / "top.png").unlink()
    (folder / "linked").symlink_to(folder / "n2")
    streams = converted(folder, tmp_path / "c")
    assert texts(streams["path"])[5] == "linked/x.gif"
    (folder / "n2" / "loop").symlink_to(folder)
    with pytest.raises(ValueError, match="loop: this link leads to a folder that it lies in"):
        convert(folder, tmp_path / "d")
    (folder / "n2" / "loop").unlink()
    (folder / "n2" / "gone.png").symlink_to(folder / "nothing")
    with pytest.raises(ValueError, match="gone.png: expected an image, found no file"):
        convert(folder, tmp_path / "e")


def test_names_that_are_no_text(tmp_path: Path) -> None:
    root = os.fsencode(tmp_path / "in")
    os.mkdir(root)  # noqa: PTH102 - bytes
    (tmp_path / "in" / os.fsdecode(b"\xff.png")).write_bytes(encoded(picture(0)))
    with pytest.raises(ValueError, match="is not UTF-8, so that stream 'path' can't hold it; give streams="):
        convert(tmp_path / "in", tmp_path / "refused" / "a")
    assert len(converted(tmp_path / "in", tmp_path / "b", streams=["image"])["image"].records) == 1


def test_an_image_that_changes_is_an_error(tmp_path: Path, folder: Path) -> None:
    from converting import source_of

    with source_of(folder) as source:
        parts = list(source.parts(0, ["image"]))
        (folder / "dog" / "a.webp").write_bytes(b"longer" * 1000)
        with pytest.raises(OSError, match="a.webp: expected .* it was changed meanwhile"):
            [part() for part in parts]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"decode": True}, r"size: expected \(height, width\)"),
        ({"decode": True, "size": 5}, r"size: expected \(height, width\)"),
        ({"decode": True, "size": (0, 5)}, "size"),
        ({"size": (5, 5)}, "for decode=True"),
        ({"mode": "CMYK"}, "mode: expected one of L, RGB, RGBA, found 'CMYK'"),
        ({"fit": "pad"}, "fit: expected one of stretch, crop, found 'pad'"),
        ({"on_error": "skip"}, "on_error: expected one of raise, mask, found 'skip'"),
    ],
)
def test_options_that_mean_nothing(tmp_path: Path, folder: Path, options: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        convert(folder, tmp_path / "out", **options)


@pytest.mark.parametrize("dtype", ["<u2", "<i4", "<f4"])
def test_values_of_more_than_8_bits_are_not_cut_off(tmp_path: Path, dtype: str) -> None:
    """Pillow's `convert` makes 255 of all that is larger."""
    (tmp_path / "in").mkdir()
    Image.fromarray(np.array([[0, 256], [30000, 3]], dtype)).save(tmp_path / "in" / "deep.tif")
    given: dict[str, Any] = {"decode": True, "size": (2, 2)}
    with pytest.raises(ValueError, match=r"deep\.tif: .*more than 8 bits"):
        convert(tmp_path / "in", tmp_path / "out", **given)
    assert not converted(tmp_path / "in", tmp_path / "masked", on_error="mask", **given)["image.valid"].records[0]
    assert len(converted(tmp_path / "in", tmp_path / "encoded")["image"].records) == 1
