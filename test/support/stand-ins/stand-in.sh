#!/bin/sh
# One stand-in for every tool that a probe runs; the name by which it is called says which it is. It lies in HOME/bin and
# does what HOME/control/KEY says, or HOME/control/KEY.TARGET for one container (its id) or process only, else it prints
# HOME/out/KEY.TARGET or HOME/out/KEY. Each call adds a line, its process id and target, to HOME/calls/KEY. Only absolute
# paths are run, so that PATH may hold the stand-ins and nothing else.
home=${0%/*}/..
key=${0##*/}
target=
case $key in
docker)
  key=docker-$1
  case $1 in
  inspect | logs) for argument; do target=$argument; done ;;
  esac
  ;;
crictl)
  for argument; do
    case $argument in stats | ps) key=crictl-$argument ;; esac
  done
  ;;
nsenter)
  while [ $# -gt 0 ]; do
    case $1 in
    --target) target=$2 && shift 2 ;;
    --) shift && break ;;
    *) shift ;;
    esac
  done
  ;;
lsof) target=$STAND_IN_TARGET ;;
esac

echo "$$ $target" >>"$home/calls/$key"

mode=ok
argument=
for file in "$home/control/$key.$target" "$home/control/$key"; do
  if [ -f "$file" ]; then
    read -r mode argument <"$file"
    break
  fi
done

case $mode in
hang) exec /bin/sleep 3600 ;;
ignore-term)
  trap '' TERM
  exec /bin/sleep 3600
  ;;
slow) /bin/sleep "$argument" ;;
fail)
  if [ "$key" = systemctl ]; then echo inactive; else echo "$key: it failed" >&2; fi
  exit "${argument:-1}"
  ;;
down)
  if [ "$key" = docker-info ]; then echo '{"ID":"","Containers":0,"ServerVersion":""}'; fi
  echo 'Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?' >&2
  exit 1
  ;;
gone)
  echo "Error response from daemon: No such container: $target" >&2
  exit 1
  ;;
garbage)
  printf '\377\000<{[ 12 -- %%\nnot what it prints\n'
  exit 0
  ;;
flood) exec /usr/bin/yes 'far too much' ;;
esac

if [ "$key" = nsenter ]; then
  STAND_IN_TARGET=$target exec "$@"
fi
for file in "$home/out/$key.$target" "$home/out/$key"; do
  if [ -f "$file" ]; then
    [ "$mode" = warn ] || exec /bin/cat "$file"
    /bin/cat "$file"
    exit "$argument"
  fi
done
echo "Error: No such object: $target" >&2
exit 1
