#!/usr/bin/env bash
# `make test-oracle`: starts a real Apache RocketMQ with its proxy, sends the same requests to it and to staticfire, lets
# our client work with it, and stops it again. All parts run; exit code 1: one of them failed. What a failed part said
# last is repeated at the end.
# Needs a JDK (8-17) and Maven; says which of them is missing.
set -euo pipefail
cd "$(dirname "$0")/../.."
for tool in java mvn; do
  command -v "$tool" >/dev/null || { echo "test-oracle: $tool is missing; install a JDK (8-17) and Maven" >&2; exit 1; }
done
folder=$(mktemp -d)
judging=$folder/judging # A second one, which checks signatures and policies.
pair=$folder/pair # A third one, with a slave, which copies topics once a minute: it is compared late.
trap 'for one in "$pair" "$judging" "$folder"; do bash tools/oracle.sh stop "$one" >/dev/null 2>&1; done; rm -rf "$folder"' EXIT
export NAMESRV_PORT=${NAMESRV_PORT:-18876} BROKER_PORT=${BROKER_PORT:-18911} PROXY_PORT=${PROXY_PORT:-18981}
nameserver=127.0.0.1:$NAMESRV_PORT broker=127.0.0.1:$BROKER_PORT proxy=127.0.0.1:$PROXY_PORT
pair_nameserver_port=$((NAMESRV_PORT + 200)) pair_broker_port=$((BROKER_PORT + 200))
said_last=25 # Lines of a failed part.

part() { # name, command...
  local name=$1 began=$SECONDS
  shift
  if ! "$@" 2>&1 | tee "$folder/$name.log"; then echo "$name" >>"$folder/failed"; fi
  printf 'oracle: %s took %d s\n' "$name" $((SECONDS - began))
}
compared() { # module of tests.oracle, arguments
  part "$1" .venv/bin/python -m "tests.oracle.$1" "${@:2}"
}
prepare_pair() {
  export NAMESRV_PORT=$pair_nameserver_port BROKER_PORT=$pair_broker_port
  BROKER_CONF=tests/oracle/replicas/broker.conf HEAP=512m SLAVE=1 bash tools/oracle.sh start "$pair" &&
    .venv/bin/python -m tests.oracle.replicas prepare "127.0.0.1:$pair_nameserver_port" "$pair" "$$-"
}
compare_access() {
  export NAMESRV_PORT=$((NAMESRV_PORT + 100)) BROKER_PORT=$((BROKER_PORT + 100))
  BROKER_CONF=tests/oracle/access.conf HEAP=512m bash tools/oracle.sh start "$judging" &&
    .venv/bin/python -m tests.oracle.access "127.0.0.1:$BROKER_PORT" "127.0.0.1:$NAMESRV_PORT"
}

part prepare prepare_pair &
PROXY=1 bash tools/oracle.sh start "$folder"
wait
part requests .venv/bin/python -m tests.oracle "$nameserver"
# Both wait most of the time, and each has a RocketMQ of its own.
part replicas .venv/bin/python -m tests.oracle.replicas compare "127.0.0.1:$pair_nameserver_port" "$pair" "$$-" &
part access compare_access &
compared replica_routes "$nameserver"
compared own_client "$nameserver"
bash tools/oracle.sh admin updateBrokerConfig -n "$nameserver" -b "$broker" -k recallMessageEnable -v true
compared grpc "$nameserver" "$proxy"
compared own_copy "$nameserver"
compared own_tls "$nameserver"
compared own_dashboard "$nameserver"
part fixture .venv/bin/pytest -q -rs --rocketmq-target "$nameserver" examples/testing tests/oracle/fixture_tests.py
wait

[[ -e $folder/failed ]] || exit 0
mapfile -t failed <"$folder/failed"
for name in "${failed[@]}"; do
  printf '\n=== %s FAILED; it said last, logged lines left out:\n' "$name"
  grep -v '^timestamp=' "$folder/$name.log" | tail -n "$said_last"
done
printf 'FAILED %s\n' "${failed[@]}"
exit 1
