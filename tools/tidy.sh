#!/usr/bin/env bash
# clang-tidy over the library and the programs, two pieces at a time.
#   tidy.sh            every .cpp file under src/ and apps/ but tests and benchmarks; headers come
#                      with the files that include them
#   tidy.sh FILE ...   these only
#   tidy.sh --deep ... with clang's static analyser as well, which takes as long as all the rest,
#                      and with the check that takes almost half of the rest
# Most of the time clang-tidy walks through the standard library's headers, so all files are read in
# the pieces in which the tsan tree compiles a room: in a fifth of the time. Single files are read
# with the flags of the dev tree.
# A piece that passed is not read again until its preprocessed text, comments and macros included,
# or .clang-tidy changes, in whatever clone: the stamps in ~/.cache/tenure-tidy say what passed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
passed=${XDG_CACHE_HOME:-$HOME/.cache}/tenure-tidy

check_one() {
  local checks=$1 tree=$2 file=$3 command=$4 key output errors
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
  check_one "$2" "$3" "$4" "$5"
  exit
fi

checks=-clang-analyzer-*,-performance-unnecessary-value-param,
if [[ ${1:-} == --deep ]]; then
  checks=
  shift
fi
tree=build/dev
if (( $# == 0 )); then
  tree=build/tsan
  checks+=-bugprone-suspicious-include  # A piece includes .cpp files.
fi
mkdir -p "$passed"
# Stamps of texts that have long changed.
find "$passed" -type f -mtime +30 -delete
# Triples of tree, file and compile command. A source that no target compiles is not in the list,
# and is not part of the product. The pieces of a room are in <tree>/<room>/…/Unity.
python3 - "$tree" "$@" <<'PYTHON' |
import json, os, re, sys

tree, wanted = sys.argv[1], set(sys.argv[2:])
for entry in json.load(open(f"{tree}/compile_commands.json")):
    file = os.path.relpath(entry["file"])
    source = os.path.relpath(file, tree) if file.startswith(f"{tree}/") else file
    ours = (re.match(r"(src|apps)/", source) and " -o fuzz/" not in entry["command"]
            and not re.search(r"_(test|bench)\.cpp$|/(conformance|pieces)/|\.cc$", source))
    if os.path.exists(file) and (file in wanted if wanted else ours):
        sys.stdout.write(f"{tree}\0{file}\0{entry['command']}\0")
PYTHON
  xargs -0 -r -n 3 -P 2 tools/tidy.sh --one "$checks"
