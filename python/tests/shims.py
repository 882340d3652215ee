"""Small C libraries that are loaded before libc, so that a system call fails, or ends the process, where a test wants it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

NO_LOCKS = """
#include <errno.h>
#include <stdlib.h>

/* The file system has no locks: NFS without its lock daemon (ENOLCK), Lustre mounted without flock (ENOSYS). */
int flock(int file, int operation) {
    (void)file;
    (void)operation;
    errno = atoi(getenv("NO_LOCKS_ERRNO"));
    return -1;
}
"""

LOCKS_OF_NFS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

/* The rule of network file systems: who may not write may not exclude, and who may not read may not share. */
int flock(int file, int operation) {
    int (*original)(int, int) = dlsym(RTLD_NEXT, "flock");
    int access = fcntl(file, F_GETFL) & O_ACCMODE;
    if (((operation & LOCK_EX) && access == O_RDONLY) || ((operation & LOCK_SH) && access == O_WRONLY)) {
        errno = EBADF;
        return -1;
    }
    return original(file, operation);
}
"""

KILLED_AT_RENAME = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* The process is killed right after the rename that gives a file the name in KILLED_AT_RENAME. */
int rename(const char *from, const char *to) {
    int (*original)(const char *, const char *) = dlsym(RTLD_NEXT, "rename");
    int result = original(from, to);
    const char *wanted = getenv("KILLED_AT_RENAME"), *name = strrchr(to, '/');
    if (wanted && name && strcmp(name + 1, wanted) == 0) raise(SIGKILL);
    return result;
}
"""


def compiled(source: str, directory: Path, name: str) -> Path:
    """The library of `source`; the test is skipped where there is no C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    library = directory / f"{name}.so"
    command = [compiler, "-shared", "-fPIC", "-o", str(library), "-x", "c", "-", "-ldl"]
    subprocess.run(command, input=source, text=True, check=True)
    return library
