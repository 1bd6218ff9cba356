#!/usr/bin/env bash
# Draws docs/watch.svg: stages holders and waiters in a scratch space, runs `tenure watch` in a real
# terminal (tmux) and captures it. Run by hand after the screen of `watch` has changed:
#
#   tools/watch_picture.sh [build/bin/tenure]
#
# Needs tmux and unshare(1): the scene has a host name of its own.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
tenure=$(realpath "${1:-$root/build/bin/tenure}")
columns=120 rows=15

if [[ ${WATCH_PICTURE_STAGE:-} != 1 ]]; then
  WATCH_PICTURE_STAGE=1 exec unshare --map-root-user --uts "$0" "$tenure"
fi
hostname build-7

scratch=$(mktemp -d)
cleanup() {
  tmux -S "$scratch/tmux" kill-server 2>/dev/null || true
  jobs -p | xargs -r kill 2>/dev/null || true
  wait
  rm -rf "$scratch"
}
trap cleanup EXIT
cd "$scratch"
export TENURE_SPACE=sqlite:ops.db

# One process that holds or waits; each begins before the next, so the order is the same every time.
contend() {
  local label=$1
  shift
  "$tenure" run --quiet --label "$label" "$@" -- sleep 600 </dev/null &
  until "$tenure" ls 2>/dev/null | grep -qF "$label"; do sleep 0.1; done
  sleep "$(( RANDOM % 3 + 1 ))"
}

contend 'pg_dump shop'    db --shared
contend 'release 2.8.0'   deploy/prod
contend 'report, daily'   db/orders --shared
contend 'make #311'       build/linux --permits 2
contend 'make #312'       build/linux --permits 2
contend 'add index'       db/orders
contend 'make #313'       build/linux --permits 2
contend 'release 2.8.1'   deploy/prod
contend 'switch region'   deploy

tmux -S "$scratch/tmux" -f /dev/null new-session -d -s watch -x "$columns" -y "$rows" \
  "env TERM=screen-256color LANG=C.UTF-8 '$tenure' watch"
sleep 2
tmux -S "$scratch/tmux" capture-pane -e -p -t watch >"$scratch/screen"
"$root/tools/terminal_svg.py" --title '$ tenure watch' <"$scratch/screen" >"$scratch/watch.svg"
mv "$scratch/watch.svg" "$root/docs/watch.svg"
