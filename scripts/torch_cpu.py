"""Install torch from PyPI into an environment for tests without a GPU: 1.2 GB in half a minute, where with CUDA it would be 5.4 GB.

    python scripts/torch_cpu.py ENVIRONMENT/bin/python torch torchdata

PyPI has no wheel of torch for x86-64 without CUDA, and the one there is doesn't load without CUDA's libraries. No function of them is
called where there is no GPU, so each library that is missing is made here, of functions that all answer "no device". Never use such an
environment where there is a GPU. What is installed has no other dependencies looked up: name them elsewhere.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

NO_DEVICE = 100
"""`cudaErrorNoDevice`, which torch takes as a count of no devices. For the other libraries it is an error like any other."""

SYMBOL = re.compile(
    r"\d+: \w+ +\w+ +(?P<kind>\w+) +(?P<bind>\w+) +\w+ +(?P<at>\w+) +(?P<name>[^@\s]+)(@+(?P<version>\S+))?"
)
FROM_THE_INTERPRETER = ("Py", "_Py")


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def install(python: str, packages: list[str]) -> Path:
    """Install the packages without their dependencies; returns the folder of torch's libraries."""
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "--no-compile", "--no-deps", *packages], check=True
    )
    where = output(
        python, "-c", "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    )
    return Path(where.strip()) / "lib"


def missing(folder: Path) -> dict[str, dict[tuple[str, str], str]]:
    """Library -> {(symbol, its version or ""): its kind} of what torch's libraries need and don't bring along."""
    there = {file.name for file in folder.iterdir()}
    libraries: set[str] = set()
    owners: dict[str, str] = {}  # of versions
    defined: set[str] = set()
    wanted: dict[tuple[str, str], str] = {}
    for file in sorted(folder.glob("*.so*")):
        libraries |= set(re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-dW", str(file))))
        for owner, names in re.findall(
            r"File: (\S+)(.*?)(?=File: |\Z)", output("readelf", "-VW", str(file)), re.DOTALL
        ):
            owners |= dict.fromkeys(re.findall(r"Name: (\S+)", names), owner)
        for symbol in SYMBOL.finditer(output("readelf", "--dyn-syms", "-W", str(file))):
            if symbol["at"] != "UND":
                defined.add(symbol["name"])
            elif symbol["bind"] == "GLOBAL":
                wanted[symbol["name"], symbol["version"] or ""] = symbol["kind"]
    absent = {name for name in libraries - there if not is_the_systems(name)}
    found: dict[str, dict[tuple[str, str], str]] = {name: {} for name in sorted(absent)}
    for (name, version), kind in wanted.items():
        # A symbol without a version is looked for in all libraries, so it may be in any.
        owner = owners[version] if version else min(absent, default="")
        free = version or not (name in defined or name.startswith(FROM_THE_INTERPRETER))
        if owner in absent and free:
            found[owner][name, version] = kind
    return found


def is_the_systems(library: str) -> bool:
    return re.match(r"lib(c|m|dl|rt|pthread|util|gcc_s|stdc\+\+)\.so|ld-", library) is not None


def build(target: Path, symbols: dict[tuple[str, str], str]) -> None:
    """A library of the name of `target`, in which every function returns `NO_DEVICE`."""
    versions: dict[str, list[str]] = defaultdict(list)
    code = []
    for (name, version), kind in sorted(symbols.items()):
        versions[version].append(name)
        code.append(f"char {name}[4096];" if kind == "OBJECT" else f"int {name}(void) {{ return {NO_DEVICE}; }}")
    script = [f"{version} {{ global: {'; '.join(names)}; }};" for version, names in versions.items() if version]
    with tempfile.TemporaryDirectory() as scratch:
        source, map_file = Path(scratch, "empty.c"), Path(scratch, "versions")
        source.write_text("\n".join(code) + "\n")
        map_file.write_text("\n".join(script) + "\n")
        options = [f"-Wl,--version-script={map_file}"] if script else []
        flags = ["-shared", "-fPIC", "-w", "-fno-builtin", f"-Wl,-soname,{target.name}"]
        subprocess.run(["cc", *flags, *options, "-o", str(target), str(source)], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("python", help="interpreter of the environment")
    parser.add_argument("package", nargs="+", help="torch, and what needs it")
    options = parser.parse_args()
    folder = install(options.python, options.package)
    for name, symbols in missing(folder).items():
        build(folder / name, symbols)
    output(options.python, "-c", "import torch; assert not torch.cuda.is_available()")


if __name__ == "__main__":
    main()
