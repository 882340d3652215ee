"""The Python of docs/frameworks.md is run, section after section, each after the first one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from frameworks import framework

PAGE = Path(__file__).resolve().parents[2] / "docs" / "frameworks.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
# The first import of a framework reads a gigabyte.
pytestmark = pytest.mark.timeout(300)
NEEDED = {"PyTorch": ("torch", "torchdata"), "JAX": ("jax",), "grain": ("grain",)}


def test_every_section_has_a_test() -> None:
    assert re.findall(r"^## (.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE) == list(NEEDED)


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")
@pytest.mark.parametrize("section", NEEDED)
def test_examples_run(section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NEEDED[section]:
        framework(name)
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    starts = [match.start() for match in re.finditer("^## ", text, re.MULTILINE)] + [len(text)]
    first = starts[list(NEEDED).index(section)]
    end = min(start for start in starts if start > first)
    blocks = [m for m in BLOCK.finditer(text) if m.start() < starts[0] or first < m.start() < end]
    assert len(blocks) >= 2
    namespace: dict[str, object] = {"__name__": "page"}
    for block in blocks:
        # Line numbers of an error are those of the page.
        code = "\n" * text.count("\n", 0, block.start(1)) + block[1]
        exec(compile(code, str(PAGE), "exec"), namespace)
