#!/usr/bin/env bash
# Runs the tests of the coverage tree, prints a table by file, and leaves the marked-up source in
# build/coverage/html. Tests themselves are not counted.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tree=build/coverage
rm -rf "$tree/profiles"  # what older programs wrote, and what listing the tests wrote
ctest --preset coverage
llvm-profdata-19 merge -sparse "$tree"/profiles/*.profraw -o "$tree/merged.profdata"

objects=()
for program in "$tree"/{bin,tests}/*; do
  [[ -f $program && -x $program ]] && objects+=(-object "$program")
done
report=(-instr-profile "$tree/merged.profdata" "${objects[@]}"
  -ignore-filename-regex '^/usr/|_test\.cpp$|/tests/')

llvm-cov-19 show "${report[@]}" -format=html -output-dir "$tree/html" -show-branches=count
llvm-cov-19 report "${report[@]}"
echo "The source, line by line: $tree/html/index.html"
