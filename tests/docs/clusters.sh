# docs/clusters.md: another URL and nothing else. The names of the machines are made up.
# needs: postgres etcd
printf '#!/bin/sh\necho deployed >>ran\n' >deploy.sh
chmod +x deploy.sh

tenure() {
  case $TENURE_SPACE in
    postgres://deploy@db.example/*) TENURE_SPACE=$POSTGRES_URL command tenure "$@" ;;
    etcds://a.example,b.example,c.example/*) TENURE_SPACE=$ETCD_URL command tenure "$@" ;;
    *) return 1 ;;
  esac
}

# SNIPPET

[[ $(<ran) == deployed ]]
