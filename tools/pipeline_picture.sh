#!/usr/bin/env bash
# Draws docs/pipeline.svg: runs a pipeline in a real terminal (tmux) and captures its live table.
# Run by hand after the table has changed:
#
#   tools/pipeline_picture.sh [build/bin/tenure]
#
# Needs tmux.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
tenure=$(realpath "${1:-$root/build/bin/tenure}")
columns=100 rows=17

scratch=$(mktemp -d)
cleanup() {
  tmux -S "$scratch/tmux" kill-server 2>/dev/null || true
  rm -rf "$scratch"
}
trap cleanup EXIT
cd "$scratch"
export XDG_STATE_HOME=$scratch TENURE_SPACE=sqlite:$scratch/space.db
cat >release.toml <<'TOML'
jobs = 3
[task.build-core]
run = "sleep 1"
[task.build-web]
run = "sleep 1.5"
[task.build-cli]
needs = ["build-core"]
run = "sleep 8"
[task.test-core]
needs = ["build-core"]
run = "sleep 6"
[task.test-web]
needs = ["build-web"]
run = "test -e tried || { touch tried; exit 1; }; sleep 9"
retry = { max = 2, base = "1ms" }
[task.docs]
run = "test -e known || exit 0; echo no such file; exit 2"
[task.publish]
needs = ["build-cli", "test-core", "test-web"]
run = "sleep 2"
locks = ["registry"]
[task.announce]
needs = ["publish", "docs"]
run = "sleep 0.5"
TOML
# Once before, so that there is an estimate.
"$tenure" pipeline run release.toml >/dev/null
touch known
rm -f tried
tmux -S "$scratch/tmux" -f /dev/null new-session -d -s run -x "$columns" -y "$rows" \
  "env TERM=screen-256color LANG=C.UTF-8 '$tenure' pipeline run release.toml --keep-going"
sleep 5
tmux -S "$scratch/tmux" capture-pane -e -p -t run >"$scratch/screen"
"$root/tools/terminal_svg.py" --title '$ tenure pipeline run release.toml --keep-going' \
  <"$scratch/screen" >"$scratch/pipeline.svg"
mv "$scratch/pipeline.svg" "$root/docs/pipeline.svg"
