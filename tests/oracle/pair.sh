#!/usr/bin/env bash
# Starts a real Apache RocketMQ with a master and a slave, sends the same requests to both and to a pair of staticfire, and
# stops it again. Takes two and a half minutes, most of it until the real slave has copied topics and groups: not a part of
# `make test-oracle`. Exit code 1: there is a difference without an explanation.
# Needs a JDK (8-17) and Maven.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$(mktemp -d)
export NAMESRV_PORT=${NAMESRV_PORT:-18776} BROKER_PORT=${BROKER_PORT:-18811}
slave_port=$((BROKER_PORT + 20))
pid=
stop() {
  [ -z "$pid" ] || kill "$pid" 2>/dev/null || true
  bash tools/oracle.sh stop "$folder" >/dev/null 2>&1
  rm -rf "$folder"
}
trap stop EXIT
printf 'slaveReadEnable=true\nbrokerIP2=127.0.0.1\n' > "$folder/both.conf"
BROKER_CONF=$folder/both.conf bash tools/oracle.sh start "$folder"
mkdir -p "$folder/slave"
# The last line of a key counts.
{
  cat "$folder/conf/broker.conf"
  printf '%s\n' brokerRole=SLAVE brokerId=1 "listenPort=$slave_port" "haListenPort=$((slave_port + 1000))" \
    "storePathRootDir=$folder/slave/store"
} > "$folder/slave/broker.conf"
ROCKETMQ_HOME=$folder java -Xmx512m --add-exports=java.base/jdk.internal.ref=ALL-UNNAMED \
  --add-opens=java.base/java.nio=ALL-UNNAMED --add-opens=java.base/sun.nio.ch=ALL-UNNAMED \
  --add-opens=java.base/java.lang=ALL-UNNAMED -Duser.home="$folder/slave" -cp "$(bash tools/oracle.sh classpath)" \
  org.apache.rocketmq.broker.BrokerStartup -c "$folder/slave/broker.conf" > "$folder/slave/out" 2>&1 </dev/null &
pid=$!
for _ in $(seq 300); do
  if bash tools/oracle.sh admin clusterList -n "127.0.0.1:$NAMESRV_PORT" 2>/dev/null | grep -q ":$slave_port "; then break; fi
  kill -0 "$pid" 2>/dev/null || { tail -20 "$folder/slave/out" >&2; exit 1; }
done
.venv/bin/python -m tests.oracle.replica_requests "127.0.0.1:$NAMESRV_PORT"
