#!/usr/bin/env bash
# Every C++ file, tracked or new, must be as clang-format leaves it; --fix makes it so.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mode=(--dry-run -Werror)
[[ ${1:-} == --fix ]] && mode=(-i)
# A file that is deleted but not yet committed is still listed, hence the test.
git ls-files -z --cached --others --exclude-standard -- '*.hpp' '*.cpp' |
  while IFS= read -r -d '' file; do [[ -e $file ]] && printf '%s\0' "$file"; done |
  xargs -0 --no-run-if-empty clang-format-19 "${mode[@]}"
