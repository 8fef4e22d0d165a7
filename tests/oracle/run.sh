#!/usr/bin/env bash
# `make test-oracle`: starts a real Apache RocketMQ with its proxy, sends the same requests to it and to staticfire, lets
# our client work with it, and stops it again. All steps run; exit code 1: one of them failed.
# Needs a JDK (8-17) and Maven; says which of them is missing.
set -euo pipefail
cd "$(dirname "$0")/../.."
for tool in java mvn; do
  command -v "$tool" >/dev/null || { echo "test-oracle: $tool is missing; install a JDK (8-17) and Maven" >&2; exit 1; }
done
folder=$(mktemp -d)
export NAMESRV_PORT=${NAMESRV_PORT:-18876} BROKER_PORT=${BROKER_PORT:-18911} PROXY_PORT=${PROXY_PORT:-18981}
trap 'bash tools/oracle.sh stop "$folder" >/dev/null 2>&1; rm -rf "$folder"' EXIT
failed=0
PROXY=1 bash tools/oracle.sh start "$folder"
.venv/bin/python -m tests.oracle "127.0.0.1:$NAMESRV_PORT" || failed=1
.venv/bin/python -m tests.oracle.replica_routes "127.0.0.1:$NAMESRV_PORT" || failed=1
.venv/bin/python -m tests.oracle.own_client "127.0.0.1:$NAMESRV_PORT" || failed=1
bash tools/oracle.sh admin updateBrokerConfig -n "127.0.0.1:$NAMESRV_PORT" -b "127.0.0.1:$BROKER_PORT" -k recallMessageEnable -v true
.venv/bin/python -m tests.oracle.grpc "127.0.0.1:$NAMESRV_PORT" "127.0.0.1:$PROXY_PORT" || failed=1
.venv/bin/python -m tests.oracle.own_copy "127.0.0.1:$NAMESRV_PORT" || failed=1
.venv/bin/python -m tests.oracle.own_dashboard "127.0.0.1:$NAMESRV_PORT" || failed=1
# A second one, which checks signatures and policies.
export NAMESRV_PORT=$((NAMESRV_PORT + 100)) BROKER_PORT=$((BROKER_PORT + 100))
judging=$folder/judging
trap 'for one in "$judging" "$folder"; do bash tools/oracle.sh stop "$one" >/dev/null 2>&1; done; rm -rf "$folder"' EXIT
BROKER_CONF=tests/oracle/access.conf HEAP=512m bash tools/oracle.sh start "$judging"
.venv/bin/python -m tests.oracle.access "127.0.0.1:$BROKER_PORT" "127.0.0.1:$NAMESRV_PORT" || failed=1
export NAMESRV_PORT=$((NAMESRV_PORT - 100))
.venv/bin/pytest -q -rs --rocketmq-target "127.0.0.1:$NAMESRV_PORT" examples/testing tests/oracle/fixture_tests.py || failed=1
exit $failed
