# docs/cli.md: the first commands. Each program notes how it was called.
mkdir bin
for name in bin/rsync bin/pg_dump deploy.sh call; do
  printf '#!/bin/sh\necho "%s $*" >>ran\n' "$(basename $name)" >$name
  chmod +x $name
done
PATH=$PWD/bin:$PATH

# SNIPPET

diff - <(sed 's/ $//' ran) <<'RAN'
deploy.sh
rsync -a /home /backup
call
pg_dump shop
RAN
