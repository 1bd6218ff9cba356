#!/usr/bin/env bash
# Runs a libFuzzer program of the asan tree.
#   fuzz.sh PROGRAM SECONDS [libFuzzer options]
#   fuzz.sh --all SECONDS       every program, one after the other; fails when one fails
# What it learns stays in PROGRAM.corpus, what it breaks in PROGRAM.crash-*. libFuzzer prints its
# seed: give it back as -seed=N.
set -euo pipefail

if [[ $1 == --all ]]; then
  cd "$(dirname "${BASH_SOURCE[0]}")/.."
  failed=0
  for program in build/asan/fuzz/*_fuzz; do
    [[ -x $program ]] || { echo "fuzz: no fuzzers in build/asan/fuzz" >&2; exit 1; }
    echo "== ${program##*/}: $2 s"
    tools/fuzz.sh "$program" "$2" || failed=1
  done
  exit "$failed"
fi

program=$1 seconds=$2
shift 2
mkdir -p "$program.corpus"
# timeout: an input that takes ten seconds is a finding too.
exec "$program" "$@" -max_total_time="$seconds" -timeout=10 -print_final_stats=1 \
  -artifact_prefix="$program." "$program.corpus"
