#!/usr/bin/env bash
# A real Apache RocketMQ on this machine, to compare with: same request, two brokers, look at both answers.
# Needs a JDK (8-17) and Maven; takes the jars from Maven Central by name; about 10 s the first time, 5 s after that.
#
#   tools/oracle.sh start [DIR]   start nameserver, broker and (PROXY=1) proxy; wait until ready; print their addresses
#                                 SLAVE=1: also a slave of the broker, at BROKER_PORT + 20
#   tools/oracle.sh stop [DIR]    stop what that DIR started
#   tools/oracle.sh admin ARGS…   run mqadmin
#   tools/oracle.sh classpath     print the class path (to compile a Java client or a load generator against)
#
# Settings by environment: ROCKETMQ_VERSION (5.3.3), NAMESRV_PORT (19876), BROKER_PORT (20911), HEAP (1g), and
# BROKER_CONF, a file with further broker properties, appended to the generated one.
set -euo pipefail
unset JAVA_TOOL_OPTIONS # Another collector than its own keeps RocketMQ from starting, another compiler makes it slow.
version=${ROCKETMQ_VERSION:-5.3.3}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/rocketmq-oracle/$version
namesrv_port=${NAMESRV_PORT:-19876} broker_port=${BROKER_PORT:-20911} heap=${HEAP:-1g}
proxy_port=${PROXY_PORT:-28081}
java_flags="-Xms$heap -Xmx$heap -XX:+UseG1GC -XX:MaxDirectMemorySize=2g --add-exports=java.base/jdk.internal.ref=ALL-UNNAMED
 --add-opens=java.base/java.nio=ALL-UNNAMED --add-opens=java.base/sun.nio.ch=ALL-UNNAMED --add-opens=java.base/java.lang=ALL-UNNAMED"

jars() {
  [ -f "$cache/ready" ] && return
  mkdir -p "$cache"
  local dependencies="" artifact
  for artifact in namesrv broker proxy tools client; do
    dependencies+="<dependency><groupId>org.apache.rocketmq</groupId><artifactId>rocketmq-$artifact</artifactId><version>$version</version></dependency>"
  done
  printf '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>oracle</groupId><artifactId>oracle</artifactId><version>1</version><dependencies>%s</dependencies></project>' "$dependencies" > "$cache/pom.xml"
  mvn -q -B -f "$cache/pom.xml" dependency:copy-dependencies -DoutputDirectory="$cache/lib" >"$cache/mvn.log" 2>&1 || { tail -5 "$cache/mvn.log" >&2; exit 1; }
  touch "$cache/ready"
}

patience_s=120 # A JVM that shares the processors with other programs may need half a minute.

wait_for() { # file, words, process id
  local end=$((SECONDS + patience_s))
  until grep -q "$2" "$1" 2>/dev/null; do
    kill -0 "$3" 2>/dev/null || { echo "oracle: the process has ended; it said in $1:" >&2; tail -20 "$1" >&2; exit 1; }
    ((SECONDS < end)) || { echo "oracle: no \"$2\" in $1 after $patience_s s; it says:" >&2; tail -20 "$1" >&2; exit 1; }
    sleep 0.1
  done
}

start() {
  jars
  local dir; dir=$(realpath -m "${1:-/tmp/rocketmq-oracle}"); mkdir -p "$dir/conf"
  cat > "$dir/conf/broker.conf" <<CONF
brokerClusterName=DefaultCluster
brokerName=broker-a
brokerId=0
brokerIP1=127.0.0.1
listenPort=$broker_port
haListenPort=$((broker_port + 1000))
namesrvAddr=127.0.0.1:$namesrv_port
storePathRootDir=$dir/store
autoCreateTopicEnable=true
traceTopicEnable=true
enablePropertyFilter=true
recallMessageEnable=true
mappedFileSizeCommitLog=268435456
# Otherwise a broker on a busy machine refuses sends that have waited for 200 ms.
waitTimeMillsInSendQueue=10000
CONF
  [ -n "${BROKER_CONF:-}" ] && cat "$BROKER_CONF" >> "$dir/conf/broker.conf"
  printf 'listenPort=%s\n' "$namesrv_port" > "$dir/conf/namesrv.conf"
  printf '{"rocketMQClusterName":"DefaultCluster","namesrvAddr":"127.0.0.1:%s","grpcServerPort":%s,"remotingListenPort":%s,"localServeAddr":"127.0.0.1"}' "$namesrv_port" "$proxy_port" "$((proxy_port + 1))" > "$dir/conf/rmq-proxy.json"
  export ROCKETMQ_HOME=$dir
  # shellcheck disable=SC2086
  java $java_flags -Duser.home="$dir" -cp "$cache/lib/*" org.apache.rocketmq.namesrv.NamesrvStartup -c "$dir/conf/namesrv.conf" >"$dir/namesrv.out" 2>&1 </dev/null &
  local namesrv=$!; echo $namesrv > "$dir/pids"; wait_for "$dir/namesrv.out" "boot success" $namesrv
  # shellcheck disable=SC2086
  java $java_flags -Duser.home="$dir" -cp "$cache/lib/*" org.apache.rocketmq.broker.BrokerStartup -c "$dir/conf/broker.conf" >"$dir/broker.out" 2>&1 </dev/null &
  local broker=$!; echo $broker >> "$dir/pids"; wait_for "$dir/broker.out" "boot success" $broker
  echo "NAMESRV_ADDR=127.0.0.1:$namesrv_port broker=127.0.0.1:$broker_port dir=$dir"
  if [ -n "${SLAVE:-}" ]; then
    sed -e "s|^brokerId=.*|brokerId=1|; s|^listenPort=.*|listenPort=$((broker_port + 20))|" \
      -e "s|^haListenPort=.*|haListenPort=$((broker_port + 1020))|; s|^storePathRootDir=.*|storePathRootDir=$dir/slave/store|" \
      "$dir/conf/broker.conf" | grep -v '^brokerRole=' > "$dir/conf/slave.conf"
    echo brokerRole=SLAVE >> "$dir/conf/slave.conf"
    # shellcheck disable=SC2086
    java $java_flags -Duser.home="$dir/slave" -cp "$cache/lib/*" org.apache.rocketmq.broker.BrokerStartup -c "$dir/conf/slave.conf" >"$dir/slave.out" 2>&1 </dev/null &
    local slave=$!; echo $slave >> "$dir/pids"; wait_for "$dir/slave.out" "boot success" $slave
    echo "SLAVE_ADDR=127.0.0.1:$((broker_port + 20))"
  fi
  if [ -n "${PROXY:-}" ]; then
    # A broker reports its start seconds before it registers; a proxy that is started in between gives up.
    local proxy _
    for _ in $(seq 20); do
      # shellcheck disable=SC2086
      java $java_flags -Duser.home="$dir" -cp "$cache/lib/*" org.apache.rocketmq.proxy.ProxyStartup -pc "$dir/conf/rmq-proxy.json" -pm cluster >"$dir/proxy.out" 2>&1 </dev/null &
      proxy=$!
      while kill -0 $proxy 2>/dev/null && ! grep -q "startup successfully" "$dir/proxy.out"; do sleep 0.1; done
      kill -0 $proxy 2>/dev/null && break
    done
    echo $proxy >> "$dir/pids"; wait_for "$dir/proxy.out" "startup successfully" $proxy
    echo "PROXY_ADDR=127.0.0.1:$proxy_port"
  fi
}

stop() { # stop what was started with DIR, newest first, and wait until it has ended
  [ -f "$1/pids" ] || return 0
  local pid _
  for pid in $(tac "$1/pids"); do
    kill "$pid" 2>/dev/null || continue
    for _ in $(seq 40); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
    kill -9 "$pid" 2>/dev/null || true
  done
  rm -f "$1/pids"
}

case ${1:-} in
  start) start "${2:-}" ;;
  stop) stop "${2:-/tmp/rocketmq-oracle}" ;;
  admin) jars; shift; export ROCKETMQ_HOME=${ROCKETMQ_HOME:-/tmp/rocketmq-oracle} NAMESRV_ADDR=${NAMESRV_ADDR:-127.0.0.1:$namesrv_port}
    exec java -Xmx256m -cp "$cache/lib/*" org.apache.rocketmq.tools.command.MQAdminStartup "$@" ;;
  classpath) jars; echo "$cache/lib/*" ;;
  *) sed -n '2,13p' "$0" | cut -c3-; exit 2 ;;
esac
