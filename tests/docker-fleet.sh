#!/usr/bin/env bash
# Starts docker/fleet.yaml (three httpds with mod_nap behind HAProxy, and a Valkey) and sends crowds to it
# from another container. Each promise must be kept while nothing happens, while a node is killed, while the
# store is killed, and while one node cannot reach the store. nap-load judges; /nap-metrics says what each
# node knows of the others.
#
# Without an engine it says so and passes (containers.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
files=(docker/fleet.yaml)
. tests/containers.sh
nodes=(web1 web2 web3)
logs() {
  for node in "${nodes[@]}"; do
    echo "--- $node"
    docker logs --tail 20 "${id[$node]}" || :
    docker exec "${id[$node]}" tail -n 20 /var/log/apache2/error.log || :
  done
}

docker/base-images.sh fleet
image Dockerfile mod_nap
remove_left
built=$SECONDS

# Pages sleep, as three nodes share this machine: 80 a second in all.
page_conf=$scratch/page.conf
printf 'SetEnv BOARD_CPU_MS 1\nSetEnv BOARD_SLEEP_MS 150\n' >"$page_conf"
{
  printf 'version: "3.8"\nservices:\n'
  printf '  %s:\n    volumes: ["'"$page_conf"':/etc/apache2/conf-enabled/page.conf:ro"]\n' "${nodes[@]}"
} >"$scratch/page.yaml"
chmod 755 "$scratch" && chmod 644 "$page_conf"
files+=("$scratch/page.yaml")

up
declare -A id
for node in "${nodes[@]}"; do
  id[$node]=$(compose ps -q "$node")
done
for node in "${nodes[@]}"; do
  until_healthy "${id[$node]}"
done

# What a node's /nap-metrics says, from inside, whatever network it has lost: metric NODE NAME[LABELS]
metric() {
  docker exec "${id[$1]}" bash -c 'exec 3<>/dev/tcp/127.0.0.1/80; printf "GET /nap-metrics HTTP/1.0\r\n\r\n" >&3; cat <&3' |
    tr -d '\r' | awk -v name="$2" '$1 == name { print $2; found = 1 } END { exit !found }'
}
# Waits until a metric of these nodes has a value: until_is VALUE NAME NODE...
until_is() {
  local value=$1 name=$2 deadline=$((SECONDS + 60)) node
  for node in "${@:3}"; do
    until [ "$(metric "$node" "$name" || :)" = "$value" ]; do
      [ $SECONDS -lt $deadline ] || fail "$node does not come to have $name $value"
      sleep 0.1
    done
  done
}
alive='nap_fleet_nodes{state="alive"}' silent='nap_fleet_nodes{state="silent"}'
sold='nap_tickets_sold_total{room="site",gate=""}' kept='nap_tickets_kept{room="site",gate=""}'

until_is 3 "$alive" "${nodes[@]}"
until_is 1 nap_store_up "${nodes[@]}"
for node in "${nodes[@]}"; do
  until_is 1 "nap_node_info{node=\"$node\"}" "$node"
done

# Visitors are known by their own address, whatever they write about it.
client ab -n 3 -H 'X-Forwarded-For: 203.0.113.9' http://balancer:8080/board >"$scratch/ab" 2>&1 || fail "ab: $(cat "$scratch/ab")"
balancer=$(docker inspect -f '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' "$(compose ps -q balancer)")
for node in "${nodes[@]}"; do
  docker exec "${id[$node]}" grep ApacheBench /var/log/apache2/access.log | cut -d' ' -f1 >"$scratch/from" || fail "ab was not at $node"
  ! grep -xF -e 203.0.113.9 -e "$balancer" "$scratch/from" || fail "a visitor of $node is not known by their own address"
done

crowd() {
  nap_load=(nap-load --allow-remote --node-header X-Served-By --get --bound 4s --stop 10min --json - "$@"
    http://balancer:8080/board)
}
# A figure of nap-load's report; the promises come before each node's part.
figure() { grep -oE "\"$1\": ?[0-9.]+" "$scratch/crowd" | head -n 1 | grep -oE '[0-9.]+$'; }
at_least() { awk -v is="$(figure "$1")" -v least="$2" 'BEGIN { exit !(is >= least) }'; }
judge() {
  local what
  for what in broken booked_again deferred_twice torn doubled unfinished; do
    [ "$(figure $what)" = 0 ] || { cat "$scratch/crowd"; fail "$1: $what is $(figure $what)"; } >&2
  done
  grep -qE '"ended": ?"done"' "$scratch/crowd" || { cat "$scratch/crowd"; fail "$1: visitors were left"; } >&2
}

# A crowd comes back to whichever node HAProxy chooses.
crowd -c 600 -n 4
client "${nap_load[@]}" >"$scratch/crowd" 2>"$scratch/said" || { cat "$scratch/said"; fail "nap-load"; } >&2
judge "a crowd"
redeemed=$(figure redeemed) share=$(figure elsewhere_share)
at_least redeemed 600 && at_least elsewhere_share 0.6 && at_least kept_share 0.95 ||
  fail "of $redeemed tickets that were redeemed $share were at another node; $(figure kept_share) were kept"

# Newcomers, half as many again as can be served, who want a page each, until all has happened, and for so many seconds
# at least; it happens at full sale.
disturbed() {
  local node before least=$((SECONDS + $2))
  declare -A before
  crowd --open 120 --duration 1h --again 5s
  load=$(docker run -d --no-healthcheck --network "$network" --entrypoint nap-load mod_nap:test "${nap_load[@]:1}")
  for node in "${nodes[@]}"; do
    before[$node]=$(metric "$node" "$kept")
  done
  for node in "${nodes[@]}"; do
    until_more "$kept" "${before[$node]}" "$node"
  done
  "$1"
  while [ $SECONDS -lt $least ]; do
    sleep 0.5
  done
  docker kill -s USR1 "$load" >/dev/null 2>&1 || : # it has ended: it says why
  [ "$(docker wait "$load")" = 0 ] || { docker logs "$load"; fail "nap-load: $1"; } >&2
  docker logs "$load" >"$scratch/crowd" 2>"$scratch/said"
  docker rm -v "$load" >/dev/null
  load=
  judge "$1"
  at_least redeemed_elsewhere 1 || fail "$1: no ticket was redeemed at another node"
  said+="; ${1//_/ }: $(figure presented) presented, $(figure broken) broken"
}
# Waits until a counter of a node has grown: until_more NAME BEFORE NODE
until_more() {
  local deadline=$((SECONDS + 60))
  until [ "$(metric "$3" "$1" || echo 0)" -gt "$2" ]; do
    [ $SECONDS -lt $deadline ] || fail "$3 is still at $2 of $1"
    sleep 0.1
  done
}
# Tickets go on being sold at these nodes.
sale_goes_on() {
  local node
  for node in "$@"; do
    until_more "$sold" "$(metric "$node" "$sold")" "$node"
  done
}

a_node_killed() {
  compose kill -s KILL web2 >/dev/null 2>&1
  until_is 1 "$silent" web1 web3
  sale_goes_on web1 web3
  compose start web2 >/dev/null 2>&1
  until_is 3 "$alive" "${nodes[@]}"
}
the_store_killed() {
  compose kill -s KILL store >/dev/null 2>&1
  until_is 0 nap_store_up "${nodes[@]}"
  sale_goes_on "${nodes[@]}"
  sleep 10
  sale_goes_on "${nodes[@]}"
  compose start store >/dev/null 2>&1
  until_is 1 nap_store_up "${nodes[@]}"
  until_is 3 "$alive" "${nodes[@]}"
}
a_node_cut_off() {
  docker network disconnect "${project}_inside" "${id[web3]}"
  until_is 0 nap_store_up web3
  until_is 1 "$silent" web1 web2
  sale_goes_on "${nodes[@]}"
  sleep 5
  sale_goes_on "${nodes[@]}"
  docker network connect "${project}_inside" "${id[web3]}"
  until_is 1 nap_store_up web3
  until_is 3 "$alive" "${nodes[@]}"
}

said=
disturbed a_node_killed 25
disturbed the_store_killed 30
disturbed a_node_cut_off 25

for node in "${nodes[@]}"; do
  if unexpected "${id[$node]}" 'the store is away|the store was emptied|is silent since|this room wants MaxRequestWorkers' >&2; then
    fail "the lines above were not expected in the error log of $node"
  fi
done
echo "docker-fleet: built in $built s, tested in $((SECONDS - built)) s; a crowd of 600: $redeemed tickets redeemed," \
  "$share of them at another node$said"
