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
