#!/usr/bin/env bash
# Installs a built tree into a prefix with an odd name, moves the prefix, and uses it as a stranger
# does: runs the program, and builds consumers with find_package and with pkg-config, each with both
# compilers, of all components and of a few; all of that with the static and the shared library.
#   run.sh BUILD_DIR
set -euo pipefail
build=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset TENURE_MODULES

# install_library KIND: into a prefix of its own, which is then moved; sets `prefix`.
install_library() {
  local first="$scratch/odd $1 prefix+1" part
  prefix="$scratch/moved $1 prefix+2"
  for part in tenure "$1"; do
    cmake --install "$build" --prefix "$first" --component "$part" >"$scratch/install.log"
  done
  mv "$first" "$prefix"
  # Debug information names sources, so binaries are searched for the first prefix only.
  if grep -rlF -e "$first" "$prefix" || grep -rlIF -e "${here%/tests/install}" "$prefix"; then
    echo "these files depend on where they were built or installed first"
    exit 1
  fi
}

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

# lacks PROGRAM COMPONENT URL: the program was linked without a component, and says so.
lacks() {
  local said
  said=$("$1" "$3" 2>&1) && { echo "$1 $3: no error"; return 1; }
  [[ $said == *"component '$2'"*"tenure-$2"* ]] || { echo "$1 $3: $said"; return 1; }
}

# loads PROGRAM PATTERN: the program loads a library whose name matches.
loads() {
  ldd "$1" >"$scratch/ldd"
  if grep -q "not found" "$scratch/ldd"; then cat "$scratch/ldd"; return 2; fi
  grep -qE "$2" "$scratch/ldd"
}

# works CONSUMER CHOICE KIND
works() {
  [[ $("$1") == book/3 ]] || { echo "$1: does not hold what it locked"; return 1; }
  reaches_module "$1"
  if [[ $3 == shared ]]; then
    loads "$1" libtenure_space || { echo "$1: is linked statically"; return 1; }
  elif loads "$1" libtenure; then
    echo "$1: is not linked statically"
    return 1
  fi
  case $2 in
    local)
      if loads "$1" 'sqlite|libpq|git2|date-tz'; then
        echo "$1: loads libraries that local: does not need"
        return 1
      fi
      lacks "$1" sqlite "sqlite:$scratch/no.db"
      lacks "$1" postgres postgres://host/database
      ;;
    sqlite)
      "$1" "sqlite:$scratch/app.db"
      loads "$1" sqlite3
      if loads "$1" 'libpq|git2|date-tz'; then
        echo "$1: loads libraries that sqlite: does not need"
        return 1
      fi
      lacks "$1" postgres postgres://host/database
      ;;
    all) "$1" "sqlite:$scratch/app.db" && loads "$1" sqlite3 && loads "$1" libpq ;;
  esac
}

declare -A packages=([local]=tenure-local [sqlite]="tenure-local tenure-sqlite" [all]=tenure)
for kind in static shared; do
  install_library "$kind"
  PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name tenure.pc)")
  export PKG_CONFIG_PATH
  for cxx in clang++-19 g++-12; do
    out="$scratch/$kind-$cxx"
    cmake -S "$here" -B "$out" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" \
      -DCMAKE_PREFIX_PATH="$prefix" >"$scratch/configure.log" 2>&1 ||
      { cat "$scratch/configure.log"; exit 1; }
    cmake --build "$out" >"$scratch/build.log" || { cat "$scratch/build.log"; exit 1; }
    # eval: pkg-config escapes spaces for a shell.
    eval "$cxx $(pkg-config --cflags tenure-local) -c \"\$here/main.cpp\" -o \"\$out/main.o\""
    for choice in local sqlite all; do
      works "$out/consumer_$choice" "$choice" "$kind"
      # shellcheck disable=SC2086  # Several words.
      eval "$cxx \"\$out/main.o\" -o \"\$out/by_pkg_config\"" \
        "$(pkg-config --libs ${packages[$choice]})"
      works "$out/by_pkg_config" "$choice" "$kind"
    done
  done
done

"$prefix/bin/tenure" run --space "sqlite:$scratch/app.db" book -- true
reaches_module "$prefix/bin/tenure" ls --space
mkdir "$scratch/links"
ln -s "$prefix/bin/tenure" "$scratch/links/tenure"
PATH="$scratch/links:$PATH" reaches_module tenure ls --space
