#!/usr/bin/env bash
# Installs what is missing on this machine (Debian 12). When nothing is missing it does nothing and
# needs no network and no rights.
#   bootstrap.sh program   what the library and the program need
#   bootstrap.sh module    and the etcd module
#   bootstrap.sh all       and tests, benchmarks and checks
set -euo pipefail

packages=(
  clang-19                                        # the compiler,
  g++                                             # its standard library; the second compiler
  cmake ninja-build make
  libsqlite3-dev libpq-dev                        # the stores in a file and in a database
  nlohmann-json3-dev libfmt-dev libcli11-dev
  libtomlplusplus-dev libcurl4-openssl-dev        # manifests of pipelines, their HTTP checks,
  libyaml-cpp-dev                                 # pnpm's workspaces
  git libgit2-dev                                 # transactions on a git repository
  libhowardhinnant-date-dev tzdata                # time zones of schedules
)
module=(
  libgrpc++-dev libprotobuf-dev                   # the store in an etcd cluster
  protobuf-compiler protobuf-compiler-grpc
)
all=(
  ccache python3 pkg-config lld-19
  clang-tidy-19 clang-format-19 llvm-19           # the checks, the coverage reports
  libclang-rt-19-dev                              # sanitizers and libFuzzer
  libgtest-dev librapidcheck-dev
  libboost1.81-dev                                # Asio
  postgresql pgbouncer                            # servers that the tests start,
  etcd-server etcd-client sqlite3 openssl         # their tools, and keys for them,
  iproute2                                        # on a network of their own,
  openssh-server openssh-client                   # and reached by ssh
  libtbb-dev redis-server libhiredis-dev          # rivals in the benchmarks
)
# The npm registry of a test. Where npm comes from elsewhere, Debian's package would replace it.
command -v npm >/dev/null || all+=(nodejs npm)
case ${1:-all} in
  program) ;;
  module) packages+=("${module[@]}") ;;
  all) packages+=("${module[@]}" "${all[@]}") ;;
  *) echo "bootstrap: no such part: $1 (program, module or all)" >&2; exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null; then
  echo "bootstrap: not a Debian system; provide these yourself: ${packages[*]}" >&2
  exit 0
fi

missing=()
format='${Package} ${db:Status-Status}\n'
installed=$(dpkg-query -W -f="$format" "${packages[@]}" 2>/dev/null || true)
for package in "${packages[@]}"; do
  grep -qxF "$package installed" <<<"$installed" || missing+=("$package")
done
(( ${#missing[@]} )) || exit 0

as_root=()
if (( EUID != 0 )); then
  as_root=(sudo)
fi
echo "bootstrap: installing ${missing[*]}"
# The tests start their own servers. A package that starts its one takes a port, and fails where
# there is no init system.
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
  trap '"${as_root[@]}" rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
  "${as_root[@]}" chmod +x "$policy"
fi
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -q -y --no-install-recommends "${missing[@]}"
