"""Fetch a Debian package and unpack it into a folder, without installing it and without its dependencies."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path


class FetchError(Exception):
    """The data could not be had; the text says what was tried."""


def fetch(package: str, cache: Path) -> Path:
    """The folder that holds the package's files: `cache/package`, filled once."""
    folder = cache / package
    if folder.is_dir():
        return folder
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise FetchError(f"cannot fetch the Debian package {package}: {tool} is not on this machine")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{package}.", dir=cache) as scratch:
        download(package, scratch)
        (archive,) = Path(scratch).glob("*.deb")
        unpacked = Path(scratch) / "unpacked"
        run(["dpkg-deb", "-x", str(archive), str(unpacked)], scratch, package)
        # Renamed when whole: a cut leaves no half data set behind.
        unpacked.rename(folder)
    return folder


def download(package: str, folder: str) -> None:
    command = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", package]
    try:
        run(command, folder, package)
    except FetchError:
        if os.geteuid() != 0:
            raise
        # A fresh machine has no package lists yet.
        run(["apt-get", "-qq", "update"], folder, package)
        run(command, folder, package)


def run(command: list[str], folder: str, package: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        raise FetchError(f"cannot fetch the Debian package {package}: `{' '.join(command)}` failed: {said}")
