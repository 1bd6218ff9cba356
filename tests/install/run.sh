#!/usr/bin/env bash
# Installs a built tree into a prefix with an odd name, moves the prefix, and uses it as a stranger
# does: runs the program, and builds a consumer with find_package and with pkg-config, each with
# both compilers.
#   run.sh BUILD_DIR
set -euo pipefail
build=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset TENURE_MODULES

first="$scratch/odd prefix+1"
prefix="$scratch/moved prefix+2"
cmake --install "$build" --prefix "$first" >"$scratch/install.log"
mv "$first" "$prefix"
# Debug information names sources, so binaries are searched for the first prefix only.
if grep -rlF -e "$first" "$prefix" || grep -rlIF -e "${here%/tests/install}" "$prefix"; then
  echo "these files depend on where they were built or installed first"
  exit 1
fi

# reaches_module PROGRAM…: opens an etcd: URL. The program must load the module out of the moved
# prefix, not the decoy in the current directory, and show the module's own error: no server listens
# on that port. If the tree was built without the module, the error must name the module.
module=$(find "$build" -name tenure_etcd.so -print -quit)
mkdir "$scratch/here"
echo decoy >"$scratch/here/tenure_etcd.so"
reaches_module() {
  local said
  rm -f "$scratch"/loaded.*
  said=$(cd "$scratch/here" && LD_DEBUG=files LD_DEBUG_OUTPUT="$scratch/loaded" \
    "$@" "etcd://127.0.0.1:1/p?timeout=100ms" 2>&1) && { echo "$*: no error"; return 1; }
  if [[ -n $module ]]; then
    [[ $said == *127.0.0.1:1* ]] &&
      grep -q "calling init: $prefix/.*/tenure_etcd.so" "$scratch"/loaded.*
  else
    [[ $said == *tenure_etcd.so* ]]
  fi || { echo "$*: $said"; return 1; }
}

# works CONSUMER
works() {
  [[ $("$1") == book/3 ]] || { echo "$1: does not hold what it locked"; return 1; }
  reaches_module "$1"
}

"$prefix/bin/tenure" run --space "sqlite:$scratch/app.db" book -- true
reaches_module "$prefix/bin/tenure" ls --space
mkdir "$scratch/links"
ln -s "$prefix/bin/tenure" "$scratch/links/tenure"
PATH="$scratch/links:$PATH" reaches_module tenure ls --space

PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name tenure.pc)")
export PKG_CONFIG_PATH
for cxx in clang++-19 g++-12; do
  cmake -S "$here" -B "$scratch/$cxx" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" \
    -DCMAKE_PREFIX_PATH="$prefix" >"$scratch/configure.log" ||
    { cat "$scratch/configure.log"; exit 1; }
  cmake --build "$scratch/$cxx"
  works "$scratch/$cxx/consumer"

  # eval: pkg-config escapes spaces for a shell.
  consumer="$scratch/$cxx/by_pkg_config"
  eval "$cxx $(pkg-config --cflags tenure) \"\$here/main.cpp\" -o \"\$consumer\"" \
    "$(pkg-config --libs tenure)"
  works "$consumer"
done
