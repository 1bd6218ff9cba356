# docs/clusters.md: a sharded space in two files.
printf '#!/bin/sh\necho ran >>ran\n' >deploy.sh
chmod +x deploy.sh

# SNIPPET

[ "$(cat ran)" = ran ]
[ -e east.db ] && [ -e west.db ]
tenure shards where deploy | grep -qE '^(east|west)  deploy$'
