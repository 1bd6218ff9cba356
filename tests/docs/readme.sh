# README.md: the first commands. Each script notes that it ran.
for name in deploy.sh backup.sh dump; do
  printf '#!/bin/sh\necho "%s" >>ran\n' $name >$name
  chmod +x $name
done
mkdir bin
printf '#!/bin/sh\necho make >>ran\n' >bin/make
chmod +x bin/make
PATH=$PWD/bin:$PATH

# Somebody to evict, whose token is read when it holds.
command tenure run other -- sleep 600 &
holder=$!
until token=$(command tenure ls other --json 2>/dev/null | grep -oP '"token": *"\K\d+'); do
  sleep 0.05
done

tenure() {
  case "$*" in
    watch)  # It goes on for ever: until it has printed a list.
      command tenure watch >watched &
      until grep -q other watched; do sleep 0.05; done
      kill $!
      wait $! || [[ $? == 143 ]]
      ;;
    "evict TOKEN") command tenure evict "$token" ;;
    *) command tenure "$@" ;;
  esac
}

# SNIPPET

diff - ran <<'RAN'
deploy.sh
backup.sh
make
dump
RAN
status=0
wait $holder || status=$?
[[ $status == 74 ]]
[[ $TENURE_SPACE == postgres://* ]]
