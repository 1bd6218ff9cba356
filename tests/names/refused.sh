#!/usr/bin/env bash
# Compiles one case of refused.cpp and looks for the reason in what the compiler says.
#   refused.sh CXX INCLUDE_DIR CASE REASON
set -euo pipefail
cxx=$1 include=$2 case=$3 reason=$4
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
compile=("$cxx" -std=c++23 -fsyntax-only -I "$include" -DCASE="$case" "$here/refused.cpp")
if said=$("${compile[@]}" 2>&1); then
  said="it compiled"
fi
grep -qF -- "$reason" <<<"$said" && exit
printf 'case %s: expected "%s", got:\n%s\n' "$case" "$reason" "$said"
exit 1
