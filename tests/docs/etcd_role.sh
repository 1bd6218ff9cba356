# docs/clusters.md: a role that may use one prefix. etcdctl asks for the password of a new user.
# needs: etcd
etcdctl() {
  if [[ "$1 $2" == "user add" ]]; then
    command etcdctl user add --interactive=false "$3" <<<opensesame
  else
    command etcdctl "$@"
  fi
}

# SNIPPET

command etcdctl user add root:toor
command etcdctl user grant-role root root
command etcdctl auth enable
at=etcd://deploy:opensesame@$ETCDCTL_ENDPOINTS
tenure run --space "$at/tenure" book -- true
if tenure run --space "$at/other" book -- true; then
  echo "the role can use another prefix"
  exit 1
fi
