#!/usr/bin/env bash
# Installs what the build needs and the machine lacks. Debian 12. When nothing is missing it does
# nothing and needs no network and no rights.
set -euo pipefail

packages=(
  clang-19 clang-tidy-19 clang-format-19 llvm-19  # the compiler, the checks, the coverage reports
  libclang-rt-19-dev                              # sanitizers and libFuzzer
  g++                                             # the second compiler, and the standard library
  cmake ninja-build make ccache git python3 pkg-config
  libboost1.81-dev                                # Asio
  nlohmann-json3-dev                              # what a session's entry says, for people
  libtbb-dev                                      # rivals in the benchmarks
  redis-server libhiredis-dev
  libpq-dev postgresql                            # the store in a database, a server to try it,
  pgbouncer                                       # and a pooler in front of it
  libsqlite3-dev                                  # the store in a file
  libgrpc++-dev libprotobuf-dev                   # the store in an etcd cluster,
  protobuf-compiler protobuf-compiler-grpc
  etcd-server etcd-client openssl                 # and the servers and keys that its tests make,
  iproute2                                        # on a network of their own
  libgtest-dev librapidcheck-dev libfmt-dev libcli11-dev
)

if ! command -v dpkg-query >/dev/null; then
  echo "bootstrap: not a Debian system; provide these yourself: ${packages[*]}" >&2
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $status == installed ]] || missing+=("$package")
done
(( ${#missing[@]} )) || exit 0

as_root=()
if (( EUID != 0 )); then
  as_root=(sudo)
fi
echo "bootstrap: installing ${missing[*]}"
# The benchmarks start their own servers. A package that starts its one takes a port, and fails
# where there is no init system.
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
  trap '"${as_root[@]}" rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
  "${as_root[@]}" chmod +x "$policy"
fi
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -q -y --no-install-recommends "${missing[@]}"
