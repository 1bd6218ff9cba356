#!/usr/bin/env bash
# Installs a built tree into an empty place, then builds and runs a stranger's project against it.
#   run.sh BUILD_DIR CXX
set -euo pipefail
build=$1 cxx=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cmake --install "$build" --prefix "$scratch/prefix" >"$scratch/install.log"
cmake -S "$here" -B "$scratch/build" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" \
  -DCMAKE_PREFIX_PATH="$scratch/prefix"
cmake --build "$scratch/build"
"$scratch/build/consumer"

# The module came along: the installed program finds it where it lies beside it, a stranger's by the
# variable. With no server behind the port it is the module that says so.
refused() {
  local said
  said=$("$@" 2>&1) && { echo "$*: no error"; return 1; }
  [[ $said == *"can't be reached"* ]] || { echo "$*: $said"; return 1; }
}
nowhere="etcd://127.0.0.1:1/p?timeout=100ms"
refused "$scratch/prefix/bin/tenure" ls --space "$nowhere"
modules=$(dirname "$(find "$scratch/prefix" -name tenure_etcd.so)")
TENURE_MODULES=$modules refused "$scratch/build/consumer" "$nowhere"
