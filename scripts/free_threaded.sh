#!/bin/bash
# A free-threaded Python with what the tests need, and the binding built for it: `make test-free-threaded` runs them in it.
#
#   scripts/free_threaded.sh FOLDER [INTERPRETER]
#
# FOLDER gets the environment (env/), the build of the binding (target/), and where no INTERPRETER is given a CPython of its own (python/),
# built from the pinned sources. PIP is the pip to use ("python3 -m pip").
set -euo pipefail
shopt -s inherit_errexit

SOURCE=${FREE_THREADED_SOURCE:-http://deb.debian.org/debian/pool/main/p/python3.13/python3.13_3.13.5.orig.tar.xz}
SHA256=${FREE_THREADED_SHA256:-93e583f243454e6e9e4588ca2c2662206ad961659863277afcdb96801647d640}
PIP=${PIP:-python3 -m pip}

mkdir -p "$1"
folder=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/.." && pwd)
interpreter=${2:-}

# The sources, whose checksum must be right before anything of them is used.
fetched() {
    local archive=$folder/source.tar.xz
    if ! echo "$SHA256  $archive" | sha256sum --check --status 2>/dev/null; then
        curl --fail --silent --show-error --location --output "$archive.part" "$SOURCE" || return 1
        echo "$SHA256  $archive.part" | sha256sum --check --quiet || {
            rm -f "$archive.part"
            echo "$SOURCE: expected the SHA-256 $SHA256, found another one" >&2
            return 1
        }
        mv "$archive.part" "$archive"
    fi
    echo "$archive"
}

built_interpreter() {
    local python=$folder/python/bin/python3 archive
    if [ ! -x "$python" ]; then
        archive=$(fetched) || return 1
        rm -rf "$folder/source" && mkdir "$folder/source"
        tar --extract --file "$archive" --directory "$folder/source" --strip-components 1 || return 1
        (cd "$folder/source" && ./configure --quiet --disable-gil --without-ensurepip --prefix="$folder/python" &&
            make --silent -j"$(nproc)" && make --silent install) >"$folder/source.log" 2>&1 || {
            tail "$folder/source.log" >&2
            return 1
        }
        rm -rf "$folder/source"
    fi
    echo "$python"
}

# PyO3 builds for 3.14t and newer. The last one that does for 3.13t is 0.28, which calls three things otherwise: a copy of the crates has these.
crates_for() {
    if "$1" -c 'import sys; sys.exit(sys.version_info < (3, 14))'; then
        echo "$root"
        return
    fi
    local copy=$folder/crates
    rm -rf "$copy" && mkdir "$copy"
    cp -r "$root"/{Cargo.toml,Cargo.lock,clippy.toml,crates,bench} "$copy"
    cd "$copy/crates/loaderx-python"
    sed -i 's/^pyo3 = { version = "[0-9.]*"/pyo3 = { version = "0.28.3"/; s/^numpy = "[0-9.]*"/numpy = "0.28"/' Cargo.toml
    sed -i 's/{_PyArray_GET_ITEM_DATA, NPY_ARRAY_WRITEABLE}/NPY_ARRAY_WRITEABLE/; s/_PyArray_GET_ITEM_DATA(array.as_array_ptr())/array.as_array_ptr()/' src/array.rs
    sed -i 's/PyCapsule::new_with_value(py, layout, CAPSULE)/PyCapsule::new(py, layout, Some(CAPSULE.to_owned()))/' src/handler.rs
    sed -i 's/as_array_ptr()).fields.descr/as_array_ptr()).descr/' src/owned.rs
    echo "$copy"
}

[ -n "$interpreter" ] || interpreter=$(built_interpreter)
"$interpreter" -c 'import sys, sysconfig; sys.exit(not sysconfig.get_config_var("Py_GIL_DISABLED"))' || {
    echo "$interpreter: expected a free-threaded Python (3.13t or newer), found one with the interpreter's lock" >&2
    exit 1
}

env=$folder/env
python=$env/bin/python
if [ "$(cat "$env/.made" 2>/dev/null)" != "$interpreter" ]; then
    rm -rf "$env"
    "$interpreter" -m venv --without-pip "$env"
    # What has no wheels for this Python would be built from source for an hour. msgpack has none, and its pure Python does.
    $PIP --python "$python" install --no-compile --only-binary numpy,ml_dtypes,hypothesis \
        'numpy>=1.26' 'ml_dtypes>=0.5' 'hypothesis>=6.100' 'pytest>=8' 'pytest-timeout>=2.3'
    MSGPACK_PUREPYTHON=1 $PIP --python "$python" install --no-compile --no-binary msgpack 'msgpack>=1.0'
    echo "$interpreter" >"$env/.made"
fi

crates=$(crates_for "$python")
(cd "$crates" && PYO3_BUILD_EXTENSION_MODULE=1 PYO3_PYTHON=$python CARGO_TARGET_DIR=$folder/target cargo build --release --quiet -p loaderx-python)

# The package is where it is, with this binding beside the other one: each Python sees only its own.
site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
suffix=$("$python" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
echo "$root/python" >"$site/loaderx.pth"
cp "$folder/target/release/lib_core.so" "$root/python/loaderx/.new.so"
mv "$root/python/loaderx/.new.so" "$root/python/loaderx/_core$suffix"
