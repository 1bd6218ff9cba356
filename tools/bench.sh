#!/usr/bin/env bash
# Runs every benchmark of the release tree in turn, then fails if one of them did.
#   bench.sh [QUESTION]    the question is passed to all: each answers the ones it knows
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

question=${1:-}
failed=()
for program in build/release/bench/*; do
  [[ -f $program && -x $program ]] || continue
  "$program" ${question:+"$question"} || failed+=("${program##*/}")
done

if (( ${#failed[@]} )); then
  echo "bench: failed: ${failed[*]}" >&2
  exit 1
fi
