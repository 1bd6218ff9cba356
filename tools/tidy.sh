#!/usr/bin/env bash
# clang-tidy over the library and the programs, two files at a time, with the flags of the dev tree.
#   tidy.sh            every .cpp file under src/ and apps/ but tests and benchmarks; headers come
#                      with the files that include them
#   tidy.sh FILE ...   these only
#   tidy.sh --deep ... with clang's static analyser as well, which takes as long as all the rest
# A file that passed is not read again until its preprocessed text, comments and macros included, or
# .clang-tidy changes, in whatever clone: the stamps in ~/.cache/tenure-tidy say what passed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tree=build/dev
passed=${XDG_CACHE_HOME:-$HOME/.cache}/tenure-tidy

check_one() {
  local checks=$1 file=$2 command=$3 key output errors
  # The compiler's own command line, turned into "only preprocess".
  key=$( (cd "$tree" && eval "$command -E -P -CC -dD -o -" && cat ../../.clang-tidy &&
    echo "$checks $file") | sha256sum | cut -d' ' -f1)
  if [[ -f $passed/$key ]]; then return 0; fi
  # Standard error only counts the warnings it suppressed, but for a crash it is all there is.
  errors=$(mktemp)
  if output=$(clang-tidy-19 --quiet -p "$tree" "--checks=$checks" "$file" 2>"$errors"); then
    rm "$errors"
    touch "$passed/$key"
  else
    printf '%s\n' "$output"
    [[ -n $output ]] || cat "$errors"
    rm "$errors"
    return 1
  fi
}

if [[ ${1:-} == --one ]]; then
  check_one "$2" "$3" "$4"
  exit
fi

checks=-clang-analyzer-*
if [[ ${1:-} == --deep ]]; then
  checks=
  shift
fi
mkdir -p "$passed"
# Stamps of texts that have long changed.
find "$passed" -type f -mtime +30 -delete
# Pairs of file and compile command. A source that no target compiles is not in the list, and is not
# part of the product.
python3 - "$tree/compile_commands.json" "$@" <<'PYTHON' |
import json, os, re, sys

entries, wanted = json.load(open(sys.argv[1])), set(sys.argv[2:])
for entry in entries:
    file = os.path.relpath(entry["file"])
    ours = re.match(r"(src|apps)/", file) and not re.search(r"_(test|bench)\.cpp$", file)
    if os.path.exists(file) and (file in wanted if wanted else ours):
        sys.stdout.write(f"{file}\0{entry['command']}\0")
PYTHON
  xargs -0 -r -n 2 -P 2 tools/tidy.sh --one "$checks"
