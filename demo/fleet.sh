#!/usr/bin/env bash
# Three front ends of one board, a store and HAProxy in front: fleet.sh TARGET-DIRECTORY
#
# Starts them on loopback from a temp directory and says what to open. Commands that break something are read
# from the terminal: "web2 kill", "web2 stop", "store kill", "store stop", "... ok". Ctrl-C stops everything.
# DEMO_PORT is the first port (8080); NAP_SO names another mod_nap.so, NAP_AGENT another nap-agent.
set -euo pipefail

. "$(dirname "$0")/httpd.sh"

agent=$(realpath "${NAP_AGENT:-$target/release/nap-agent}")
names=(web1 web2 web3)
declare -A pid port_of

end_all() {
  for one in "${pid[@]}"; do
    kill -CONT -- "-$one" 2>/dev/null || :
    kill -TERM "$one" 2>/dev/null || :
  done
  for one in "${pid[@]}"; do wait "$one" 2>/dev/null || :; done
  stop
}
trap end_all EXIT

# One that a word has killed is started again under the same name, on the same port.
start_store() {
  setsid redis-server --bind 127.0.0.1 --port "${port_of[store]}" --save '' --appendonly no --daemonize no \
    --dir "$root/store" --logfile "$root/store/log" --maxmemory-policy noeviction &
  pid[store]=$!
}

start_node() {
  port=${port_of[$1]}
  start "$1"
  pid[$1]=${pids[-1]}
  # It may be killed by a word: that is no end of the demo.
  unset 'pids[-1]'
}

write_config() {
  common_config "$1" "$2" cgid remoteip
  cat <<CONF
LoadModule nap_module $so
# The visitor's own address, which HAProxy tells.
RemoteIPHeader X-Forwarded-For
RemoteIPInternalProxy 127.0.0.1
CustomLog access_log "%a %t \"%r\" %>s"
ScriptSock cgisock
SetEnv BOARD_DIR $root/data
SetEnv BOARD_CPU_MS ${BOARD_CPU_MS:-30}
SetEnv BOARD_SLEEP_MS ${BOARD_SLEEP_MS:-0}
ScriptAlias /board $root/board
NapTicketKey $root/nap.keys
NapStore redis://127.0.0.1:${port_of[store]} agent=$agent
NapNode $1
<NapRoom board>
  NapRunReady 4
  NapWaitMax 4s
</NapRoom>
<Location "/board">
  NapUse board
</Location>
<Location "/nap-info">
  SetHandler nap-info
  Require local
</Location>
CONF
}

install -m 755 "$target/cgi/board" "$root/board"
install -d -m 777 "$root/data"
install -d -m 755 "$root/store" "$root/balancer" "${names[@]/#/$root/}"
(umask 077 && printf '1 %s\n' "$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')" >"$root/nap.keys")

for name in store "${names[@]}" balancer; do
  take_port
  port_of[$name]=$port
done
start_store
for name in "${names[@]}"; do
  write_config "$name" "${port_of[$name]}" >"$root/$name/httpd.conf"
  start_node "$name"
done

{
  cat <<CONF
defaults
  mode http
  timeout connect 1s
  timeout client 60s
  timeout server 60s
  timeout http-keep-alive 5s
  timeout http-request 10s
  option http-server-close
  option redispatch 1
  retry-on conn-failure
frontend crowd
  bind 127.0.0.1:${port_of[balancer]}
  http-request set-header X-Forwarded-For %[src]
  default_backend nodes
backend nodes
  balance roundrobin
  http-response set-header X-Served-By %s
CONF
  for name in "${names[@]}"; do
    echo "  server $name 127.0.0.1:${port_of[$name]} check inter 500ms fall 2"
  done
} >"$root/balancer/haproxy.cfg"
setsid haproxy -f "$root/balancer/haproxy.cfg" -db >"$root/balancer/log" 2>&1 &
pid[balancer]=$!
for _ in $(seq 100); do
  free "${port_of[balancer]}" || break
  kill -0 "${pid[balancer]}" 2>/dev/null || { cat "$root/balancer/log" >&2; exit 1; }
  sleep 0.1
done

cat <<TEXT

  A bulletin board on three front ends, ${BOARD_CPU_MS:-30} ms of processor time a request:

    the crowd's address          http://127.0.0.1:${port_of[balancer]}/board   (HAProxy, round robin)
    what each knows of the fleet http://127.0.0.1:${port_of[web1]}/nap-info   and ports ${port_of[web2]}, ${port_of[web3]}

  Send a crowd, in another terminal:

    $1/release/nap-load --clients 200 --posts 5 --again 5s --node-header X-Served-By http://127.0.0.1:${port_of[balancer]}/board

  Then break something. Type web1, web2, web3 or store, and one of: kill, stop, ok. /nap-info of the others
  says within seconds what is missing.

  Configuration and logs: $root    Ctrl-C ends everything.

TEXT

while read -r name what; do
  [ -n "${pid[$name]:-}" ] && [ "$name" != balancer ] || { echo "web1, web2, web3 or store"; continue; }
  case $what in
    kill) kill -KILL -- "-${pid[$name]}" 2>/dev/null || : ;;
    stop) kill -STOP -- "-${pid[$name]}" 2>/dev/null || : ;;
    ok)
      if kill -0 "${pid[$name]}" 2>/dev/null; then kill -CONT -- "-${pid[$name]}"
      elif [ "$name" = store ]; then start_store
      else start_node "$name"
      fi
      ;;
    *) echo "kill, stop or ok" ;;
  esac
done
# Without a terminal it runs until it is ended.
wait "${pid[balancer]}"
