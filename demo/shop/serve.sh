#!/usr/bin/env bash
# The shop's application server and its database, private: serve.sh DIRECTORY
#
# Sets PostgreSQL and PHP-FPM up in DIRECTORY, both on unix sockets there, both as a user without
# rights (www-data, if root starts this). Says "ready" when both answer; ends both when its
# standard input ends or at a signal. httpd speaks to DIRECTORY/fpm.sock; the pages are copied to
# DIRECTORY/pages.
#
#   SHOP_WORKERS   PHP processes at most (96)
#   SHOP_SESSIONS  visits at once; a visitor who would begin another is refused with a 503 (0: no limit)
#   SHOP_IDLE      seconds after which a visit that nobody ended is over (120)
#   SHOP_ROUNDS    how often the search goes over all articles, which sets its cost (3)
#   SHOP_LISTEN    a port for httpd on another machine, instead of the socket
#   SHOP_SLEEP_MS  how long every page waits for something elsewhere (0)
#   SHOP_SEARCH_MS how long the search waits for a search engine elsewhere, computing nothing (0: off)
set -euo pipefail

here=$(dirname "$(realpath "$0")")
install -d -m 755 "$1"
root=$(realpath "$1")
workers=${SHOP_WORKERS:-96}
listen=${SHOP_LISTEN:-$root/fpm.sock}
bin=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
fpm=$(printf '%s\n' /usr/sbin/php-fpm* | sort -V | tail -n 1)
[ -x "$bin/postgres" ] && [ -x "$fpm" ] || {
  echo "shop: PostgreSQL or PHP-FPM is missing (tests/setup.sh shop)" >&2
  exit 1
}

as=()
if [ "$(id -u)" -eq 0 ]; then
  as=(setpriv --reuid www-data --regid www-data --clear-groups)
  chown www-data: "$root"
fi
# Nothing of ours may depend on the caller's directory or home.
cd "$root"
export HOME=$root

pids=()
stop() {
  trap - EXIT INT TERM
  # A fast shutdown makes the database roll back what is under way.
  for pid in "${pids[@]}"; do kill -INT "$pid" 2>/dev/null || :; done
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || :; done
}
trap stop EXIT
trap 'exit 0' INT TERM

die() {
  echo "shop: $1; its last words:" >&2
  tail -n 5 "$2" >&2
  exit 1
}

"${as[@]}" "$bin/initdb" --pgdata "$root/data" --username shop --auth trust --encoding UTF8 \
  --locale C --no-sync >initdb.log 2>&1 || die "initdb failed" initdb.log
# It exists as long as the demo: nothing in it need survive a crash.
"${as[@]}" "$bin/postgres" -D "$root/data" -k "$root" -c listen_addresses= -c fsync=off \
  -c synchronous_commit=off -c max_connections=$((workers + 8)) -c shared_buffers=64MB \
  -c log_min_messages=fatal -c log_min_error_statement=panic 2>postgres.log &
pids+=($!)
sql() { "${as[@]}" "$bin/psql" --host "$root" --username shop --quiet --no-psqlrc -v ON_ERROR_STOP=1 "$@"; }
for _ in $(seq 600); do
  sql --dbname postgres --command '' 2>/dev/null && break
  kill -0 "${pids[0]}" 2>/dev/null || break
  sleep 0.1
done
sql --dbname postgres --file "$here/schema.sql" 2>>postgres.log || die "no database" postgres.log

install -d -m 755 pages
install -m 644 "$here"/pages/*.php pages
cat >fpm.conf <<CONF
[global]
daemonize = no
error_log = $root/fpm.log
log_level = warning
[shop]
listen = $listen
listen.mode = 0666
listen.backlog = 4096
pm = ondemand
pm.max_children = $workers
pm.process_idle_timeout = 60s
catch_workers_output = yes
env[SHOP_DATABASE] = "host=$root user=shop dbname=postgres"
env[SHOP_SESSIONS] = ${SHOP_SESSIONS:-0}
env[SHOP_IDLE] = ${SHOP_IDLE:-120}
env[SHOP_ROUNDS] = ${SHOP_ROUNDS:-3}
env[SHOP_SLEEP_MS] = ${SHOP_SLEEP_MS:-0}
env[SHOP_SEARCH_MS] = ${SHOP_SEARCH_MS:-0}
CONF
# -n: without the machine's own php.ini.
"${as[@]}" "$fpm" -n -d extension=pgsql -d zend_extension=opcache -d memory_limit=256M \
  -d opcache.validate_timestamps=0 -d display_errors=0 -d log_errors=1 -d expose_php=0 --fpm-config "$root/fpm.conf" 2>fpm.stderr &
pids+=($!)
listens() { if [ -n "${SHOP_LISTEN:-}" ]; then (exec 3<>"/dev/tcp/127.0.0.1/$listen") 2>/dev/null; else [ -S "$listen" ]; fi; }
for _ in $(seq 600); do
  listens && break
  kill -0 "${pids[1]}" 2>/dev/null || break
  sleep 0.1
done
listens || die "PHP-FPM did not start" fpm.stderr

echo ready
# Waits until the process that started it is gone.
while read -r _; do :; done
