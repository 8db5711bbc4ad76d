#!/usr/bin/env bash
# Four backends of unequal speed behind lbmethod=nap: balancer.sh TARGET-DIRECTORY
#
# Starts them and a private httpd (event) on loopback from a temp directory, sends forty requests a
# second and says every two seconds which backends answered. Commands that break a backend are read from
# the terminal: "d 500", "d slow", "d stop", "d kill", "d ok". Ctrl-C stops everything. DEMO_PORT is the
# first port (8080); NAP_SO names another mod_nap.so; METHOD another lbmethod.
set -euo pipefail

target=$(realpath "$1")
so=$(realpath "${NAP_SO:-$target/release/mod_nap.so}")
httpd=$(apxs -q SBINDIR)/$(apxs -q PROGNAME)
modules=$(apxs -q LIBEXECDIR)
root=$(mktemp -d "${TMPDIR:-/tmp}/nap-demo.XXXXXX")
chmod 755 "$root"
declare -A pid port rate=([a]=100000 [b]=100000 [c]=200000 [d]=400000)
others=()

stop() {
  trap - EXIT INT TERM
  for p in "${others[@]}" "${pid[@]}"; do
    kill -CONT "$p" 2>/dev/null || :
    kill -TERM "$p" 2>/dev/null || :
  done
  wait 2>/dev/null || :
  rm -rf "$root"
}
trap stop EXIT
trap 'exit 0' INT TERM

next_port=${DEMO_PORT:-8080}
take_port() {
  while (exec 3<>"/dev/tcp/127.0.0.1/$next_port") 2>/dev/null; do next_port=$((next_port + 1)); done
  taken=$next_port
  next_port=$((next_port + 1))
}

start_backend() {
  "$target/cgi/backend" "$1" "${port[$1]}" "${rate[$1]}" &
  pid[$1]=$!
}

load() {
  for name in "$@"; do
    [ ! -e "$modules/mod_$name.so" ] || echo "LoadModule ${name}_module $modules/mod_$name.so"
  done
}

take_port
front=$taken
for name in a b c d; do
  take_port
  port[$name]=$taken
  start_backend "$name"
done

{
  load mpm_event unixd authz_core authz_host proxy proxy_http proxy_balancer slotmem_shm \
    lbmethod_byrequests lbmethod_bytraffic lbmethod_bybusyness
  [ "$(id -u)" -ne 0 ] || printf 'User www-data\nGroup www-data\n'
  cat <<CONF
LoadModule nap_module $so
ServerRoot $root
DefaultRuntimeDir $root
PidFile pid
ErrorLog error_log
ServerName localhost
Listen 127.0.0.1:$front
ThreadsPerChild 64
MaxRequestWorkers 128
<Location "/nap-info">
  SetHandler nap-info
  Require local
</Location>
<Proxy "balancer://work">
  BalancerMember "http://127.0.0.1:${port[a]}" route=a
  BalancerMember "http://127.0.0.1:${port[b]}" route=b
  BalancerMember "http://127.0.0.1:${port[c]}" route=c
  BalancerMember "http://127.0.0.1:${port[d]}" route=d
  ProxySet lbmethod=${METHOD:-nap}
  OxthasTimeout 1s
</Proxy>
ProxyPass "/nap-info" "!"
ProxyPass "/" "balancer://work/"
CONF
} >"$root/httpd.conf"
"$httpd" -f "$root/httpd.conf" -D FOREGROUND &
server=$!
others+=("$server")
until curl -s -o /dev/null "http://127.0.0.1:$front/nap-info"; do
  kill -0 "$server" 2>/dev/null || {
    cat "$root/error_log" >&2 2>/dev/null || :
    echo 'httpd has not started' >&2
    exit 1
  }
  sleep 0.1
done

# Forty a second; a line each: the status and the backend that answered.
visitors() {
  while :; do
    for _ in 1 2 3 4; do
      curl -s -m 20 -w ' %{http_code}' "http://127.0.0.1:$front/work?size=2000" | tr '\n' ' ' |
        awk '{ print $NF, (NF > 1 ? $1 : "-") }' >>"$root/answers" &
    done
    sleep 0.1
  done
}
visitors &
others+=($!)

tell() {
  while sleep 2; do
    mv "$root/answers" "$root/seen" 2>/dev/null || continue
    sort "$root/seen" | uniq -c |
      awk '{ printf "  %s %s: %d", ($2 == 200 ? "by" : "status " $2), $3, $1 } END { print "" }'
  done
}
tell &
others+=($!)

cat <<WORDS
mod_proxy_balancer with lbmethod=${METHOD:-nap} on http://127.0.0.1:$front/
What it knows of its members: http://127.0.0.1:$front/nap-info
Backends a, b, c, d with speeds 1 : 1 : 2 : 4. Type a name and one of: 500, slow, stop, kill, ok.
WORDS

mode() { curl -s -m 2 -o /dev/null "http://127.0.0.1:${port[$1]}/_mode?$2" || :; }

while :; do
  read -r name what || { wait; continue; }
  [ -n "${port[$name]:-}" ] || { echo "there is no backend $name"; continue; }
  case $what in
    500) mode "$name" 500 ;;
    slow) mode "$name" slow=20 ;;
    stop) kill -STOP "${pid[$name]}" ;;
    kill) kill -KILL "${pid[$name]}"; wait "${pid[$name]}" 2>/dev/null || : ;;
    ok)
      kill -CONT "${pid[$name]}" 2>/dev/null || start_backend "$name"
      sleep 0.2
      mode "$name" ok
      ;;
    *) echo "500, slow, stop, kill or ok" ;;
  esac
done
