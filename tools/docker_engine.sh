#!/usr/bin/env bash
# Start a Docker engine with docker-compose, and provide the base image of the Dockerfile. Idempotent.
# A running engine is used as it is, and so is an image that is present or can be pulled. Otherwise both are installed,
# as root on Debian; elsewhere a line states what is missing. The first time takes a minute and a half.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
image=${1:-$(sed -n 's/^FROM \([^ ]*\).*/\1/p' "$here/../Dockerfile" | sed -n 1p)}
logs=${TMPDIR:-/tmp}

give_up() {
  echo "docker: $1" >&2
  exit 1
}

install() { # the programs, and the names of their Debian packages
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null \
    || give_up "not here: $1. Install Docker and docker-compose; as root on Debian this script does it"
  apt-get update -qq >/dev/null
  # shellcheck disable=SC2086
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $2 >"$logs/docker-install.log" 2>&1 \
    || { tail -5 "$logs/docker-install.log" >&2; give_up "$2 can't be installed"; }
}

has_compose() { command -v docker-compose >/dev/null || docker compose version >/dev/null 2>&1; }

# Remove a process id file if that process is dead, or another program. A new engine would wait for it.
forget_dead() { # the file, the process's name
  [ -f "$1" ] || return 0
  local state
  state=$(sed -n 's/^[0-9]* (\(.*\)) \(.\).*/\1 \2/p' "/proc/$(cat "$1")/stat" 2>/dev/null || true)
  case $state in
    "$2 Z") rm -f "$1" ;;
    "$2 "*) ;;
    *) rm -f "$1" ;;
  esac
}

answers_soon() { # the engine's process id
  local _
  for _ in $(seq 60); do
    docker info >/dev/null 2>&1 && return
    kill -0 "$1" 2>/dev/null || return 1
    sleep 0.5
  done
  return 1
}

engine() {
  docker info >/dev/null 2>&1 && return
  command -v dockerd >/dev/null && command -v docker >/dev/null || install "a Docker engine" "docker.io iptables"
  [ "$(id -u)" = 0 ] || give_up "no engine answers, and only root can start one"
  local _
  for _ in 1 2; do # A second try, since processes of a killed engine may not have ended before the first one.
    forget_dead /var/run/docker.pid dockerd
    forget_dead /var/run/docker/containerd/containerd.pid containerd
    setsid nohup dockerd --storage-driver=overlay2 >"$logs/dockerd.log" 2>&1 </dev/null &
    answers_soon $! && return
  done
  tail -20 "$logs/dockerd.log" >&2
  give_up "the engine doesn't start"
}

# If no image registry can be reached, build a minimal Debian with its Python 3.11 under the image's name. It has this
# machine's trusted certificates, so that packages can be installed in it.
base_image() {
  docker image inspect "$image" >/dev/null 2>&1 && return
  timeout 60 docker pull --quiet "$image" >/dev/null 2>&1 && return
  command -v debootstrap >/dev/null || install "$image, or debootstrap to make it" "debootstrap"
  local root mirror certificates=/etc/ssl/certs/ca-certificates.crt
  root=$(mktemp -d)
  # shellcheck disable=SC2064
  trap "rm -rf '$root'" EXIT
  mirror=$({ cat /etc/apt/sources.list /etc/apt/sources.list.d/debian* 2>/dev/null || true; } \
    | sed -n 's/^URIs: *//p; s/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\) .*/\2/p' | sed -n 1p)
  debootstrap --variant=minbase --include=python3,python3-venv,python3-pip,python-is-python3,ca-certificates bookworm \
    "$root" "$mirror" >"$logs/debootstrap.log" 2>&1 || { tail -5 "$logs/debootstrap.log" >&2; give_up "no $image"; }
  cp "$certificates" "$root$certificates"
  printf '[global]\ncert = %s\nbreak-system-packages = true\n' "$certificates" >"$root/etc/pip.conf"
  rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
  tar -C "$root" -c . | docker import --change 'CMD ["python3"]' - "$image" >/dev/null
}

engine
has_compose || install "docker-compose" "docker-compose"
base_image
echo "docker: the engine answers, $image is here"
