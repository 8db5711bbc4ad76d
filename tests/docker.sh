#!/usr/bin/env bash
# Builds the images of docker/, starts docker/compose.yaml (httpd with mod_nap before two application
# servers and a shop) and lets ab and nap-load judge it from another container: statuses, tickets,
# sessions, the pages for the administrator, a killed application server, a restart with earlier
# tickets. It says at the end how long each step took.
#
# Without an engine it says so and passes (containers.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
files=(docker/compose.yaml)
. tests/containers.sh
logs() {
  docker exec "$web" tail -n 20 /var/log/apache2/error.log
  docker exec "$web" awk '{ n[$9]++ } END { for (status in n) print n[status], "x", status }' /var/log/apache2/access.log
}

docker/base-images.sh
image Dockerfile mod_nap
image Dockerfile.shop mod_nap_shop
built=$SECONDS
remove_left

up
web=$(compose ps -q web)
until_healthy "$web"
[ "$(docker exec "$web" bash -c 'for p in /proc/[0-9]*; do
  grep -qs ^apache2 "$p/comm" && stat -c %U "$p"; done | sort -u | paste -sd,')" = root,www-data ] ||
  fail "the children are not www-data"

told() { docker exec "$web" cat /var/log/apache2/access.log | awk -v status="$1" '$7 ~ "^/board" && $9 ~ status' | wc -l; }

# Visitors come back when their ticket says: all of them are let in. More of them than two cores serve within the bound.
client nap-load --allow-remote --json - -c 2000 -n 1 http://web/board >"$scratch/crowd" 2>"$scratch/said" ||
  { tail -n 20 "$scratch/said" "$scratch/crowd"; fail "nap-load"; } >&2
page web /nap-metrics >"$scratch/metrics"
metric() { tr -d '\r' <"$scratch/metrics" | sed -n "s/^nap_$1{room=\"site\",gate=\"\"} //p"; }
sold=$(metric tickets_sold_total) kept=$(metric tickets_kept) broken=$(metric tickets_broken_total)
[ "$kept" -gt 0 ] && [ "$broken" = 0 ] || fail "of $sold tickets $kept were kept and $broken broken"

# ab takes what it gets: 200 or, with a ticket it never presents, 503. Each request is answered.
n=5000
crowd() {
  client ab -l -n $n -c 100 "$@" http://web/board >"$scratch/ab" 2>&1 || { cat "$scratch/ab"; fail "ab $*"; } >&2
  grep -q '^Failed requests: *0$' "$scratch/ab" && grep -q "^Complete requests: *$n$" "$scratch/ab" ||
    { cat "$scratch/ab"; fail "ab $*"; } >&2
}
before=$(told '^(200|503)$')
crowd
plain=$(grep '^Requests per second' "$scratch/ab" | tr -s ' ' | cut -d' ' -f4)
crowd -k
[ "$(told '^(200|503)$')" = $((before + 2 * n)) ] || fail "ab was told something else than 200 and 503"
# The module's counts agree with what visitors were told.
page web /nap-metrics >"$scratch/metrics"
refused=$(tr -d '\r' <"$scratch/metrics" | awk '/^nap_refused_total{room="site"/ { n += $2 } END { print n + 0 }')
[ "$(told '^200$')" = $(($(metric passed_total) + $(metric granted_total))) ] && [ "$(told '^503$')" = "$refused" ] ||
  fail "the access log and /nap-metrics disagree: $(grep 'room="site"' "$scratch/metrics")"

page web /bwshare-info | grep -q 'mod_bwshare' || fail "no /bwshare-info"
for app in app1 app2; do
  grep -q "^oxthas_answers_total{.*member=\"http://$app\".*} [1-9]" "$scratch/metrics" || fail "$app had no work"
done

# The shop: every visitor who has logged in comes to the end of their session.
sessions=20
client nap-load sessions --allow-remote --json - -c 10 -s $((sessions / 10)) --think 100ms --timeout 1min http://web \
  /shop/login /shop/new '/shop/list?category={number}' '/shop/article?article={number}' '/shop/search?q={number}' \
  'POST:/shop/buy?article={number}' /shop/logout >"$scratch/sessions" 2>"$scratch/said" ||
  { tail -n 20 "$scratch/said" "$scratch/sessions"; fail "nap-load sessions"; } >&2
grep -qE "\"completed\": ?$sessions\b" "$scratch/sessions" && grep -qE '"mid_session_failures": ?0\b' "$scratch/sessions" ||
  { cat "$scratch/sessions"; fail "not every session came to its end"; } >&2
page web /nap-metrics >"$scratch/metrics"
grep -q "^nap_sessions_finished_total{room=\"shop\"} $sessions" "$scratch/metrics" ||
  fail "of $sessions sessions /nap-metrics has $(grep ^nap_sessions "$scratch/metrics")"
page web /nap-info >"$scratch/info"
grep -q '<h3 class="gate">Sessions</h3>' "$scratch/info" || fail "/nap-info shows no sessions"

# An application server dies: the other gets all requests, and no client sees an error.
before=$(told '^50[024]$')
docker kill "$(compose ps -q app2)" >/dev/null
client ab -l -n 200 -c 4 http://web/board >"$scratch/ab" 2>&1 || fail "ab after the death of app2"
[ "$(told '^50[024]$')" = "$before" ] || fail "errors although app1 lives"

# A ticket outlives a full restart. Somebody is refused while a crowd is there.
load=$(docker run -d --no-healthcheck --network "$network" --ulimit nofile=8192 --entrypoint ab mod_nap:test -l -n 1000000 -c 2000 http://web/board)
ticket=
for _ in $(seq 100); do
  page web /board >"$scratch/refused" || :
  ticket=$(tr -d '\r' <"$scratch/refused" | sed -n 's/^Nap-Ticket: //p')
  [ -z "$ticket" ] || break
done
docker rm -f -v "$load" >/dev/null
load=
[ -n "$ticket" ] || fail "nobody was sold a ticket"
epoch() { page web '/nap-info?json' | grep -o '"epoch":"[0-9a-f]*"'; }
old=$(epoch)
compose stop -t 20 web >/dev/null 2>&1
compose start web >/dev/null 2>&1
until_healthy "$web"
[ "$(epoch)" = "$old" ] || fail "the state file was not taken over"
page web /nap-ticket "Nap-Ticket: $ticket\r\n" | head -n 1 | grep -q ' 200 ' || fail "the ticket is forgotten"

if unexpected "$web" 'AH01114|AH00957|AH00959|AH00898|AH01030|AH01102|AH00484|AH10159|this room wants MaxRequestWorkers' >&2; then
  fail "the lines above were not expected in the error log"
fi
echo "docker: built in $built s, tested in $((SECONDS - built)) s; ab 2 x $n: $plain a second; nap-load: $kept" \
  "tickets kept, $broken broken; $sessions sessions in the shop; an application server killed without an error; a" \
  "ticket outlived a restart"
