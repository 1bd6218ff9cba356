#!/usr/bin/env bash
# clang-tidy over the library and the programs, two files at a time, with the flags of the dev tree.
#   tidy.sh            every .cpp file under src/ and apps/ but tests and benchmarks; headers come
#                      with the files that include them
#   tidy.sh FILE ...   these only
# A file that passed is not read again until its preprocessed text, comments and macros included, or
# .clang-tidy changes: the stamps in build/dev/tidy say what passed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tree=build/dev

check_one() {
  local file=$1 command=$2 key stamp output
  # The compiler's own command line, turned into "only preprocess".
  key=$( (cd "$tree" && eval "$command -E -CC -dD -o -" && cat ../../.clang-tidy) | sha256sum)
  stamp=$tree/tidy/${file//\//.}
  if [[ -f $stamp && $(<"$stamp") == "$key" ]]; then return 0; fi
  # Standard error only counts the warnings it suppressed, but for a crash it is all there is.
  if output=$(clang-tidy-19 --quiet -p "$tree" "$file" 2>"$stamp.err"); then
    echo "$key" >"$stamp"
  else
    printf '%s\n' "$output"
    [[ -n $output ]] || cat "$stamp.err"
    return 1
  fi
}

if [[ ${1:-} == --one ]]; then
  check_one "$2" "$3"
  exit
fi

mkdir -p "$tree/tidy"
# Pairs of file and compile command. A source that no target compiles is not in the list, and is not
# part of the product.
python3 - "$tree/compile_commands.json" "$@" <<'PYTHON' | xargs -0 -r -n 2 -P 2 tools/tidy.sh --one
import json, os, re, sys

entries, wanted = json.load(open(sys.argv[1])), set(sys.argv[2:])
for entry in entries:
    file = os.path.relpath(entry["file"])
    ours = re.match(r"(src|apps)/", file) and not re.search(r"_(test|bench)\.cpp$", file)
    if os.path.exists(file) and (file in wanted if wanted else ours):
        sys.stdout.write(f"{file}\0{entry['command']}\0")
PYTHON
