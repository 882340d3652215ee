"""Make a virtual environment that holds published packages, once, and print its interpreter.

    python scripts/peers.py loaderx==1.5.7        ->  build/peers/loaderx-1.5.7/bin/python
    python scripts/peers.py grain numpy           ->  build/peers/grain-numpy/bin/python

A published `loaderx` has the import name of this project, so it never shares an environment with it. Exit code 3 means
that pip could not get the packages, which is a lack of network more often than not; every other failure is a fault.
"""

import argparse
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

UNAVAILABLE = 3
ROOT = Path(__file__).resolve().parent.parent


def peers_dir() -> Path:
    return Path(os.environ.get("LOADERX_PEERS_DIR") or ROOT / "build" / "peers")


def interpreter(env: Path) -> Path:
    return env / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def make(*requirements: str) -> Path:
    """The interpreter of the environment of `requirements`, which is made if it is missing.

    Each is "name", "name==version", or an option of pip.
    """
    names = [requirement.replace("==", "-") for requirement in requirements if not requirement.startswith("-")]
    env = peers_dir() / "-".join(names)
    if interpreter(env).exists():
        return interpreter(env)
    # Built beside its place and renamed into it, so that a cut leaves no half environment and two makers do not meet.
    unfinished = env.with_name(f"{env.name}.{os.getpid()}")
    try:
        venv.create(unfinished, with_pip=False, symlinks=os.name != "nt")
        pip = [sys.executable, "-m", "pip", "--python", str(interpreter(unfinished)), "install", "--quiet"]
        done = subprocess.run([*pip, "--disable-pip-version-check", *requirements], stdout=sys.stderr, check=False)
        if done.returncode != 0:
            print(f"pip could not install {', '.join(requirements)}", file=sys.stderr)
            raise SystemExit(UNAVAILABLE)
        try:
            unfinished.rename(env)
        except OSError:
            if not interpreter(env).exists():
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return interpreter(env)


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the virtual environment of published packages.")
    parser.add_argument("requirement", nargs="+", help="name or name==version")
    options, pip_options = parser.parse_known_args()
    print(make(*pip_options, *options.requirement))


if __name__ == "__main__":
    main()
