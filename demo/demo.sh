#!/usr/bin/env bash
# The board behind mod_nap and without it, side by side: demo.sh TARGET-DIRECTORY
#
# Starts two private httpds (event) on loopback from a temp directory, says what to open and what
# to try, and stops both at Ctrl-C. DEMO_PORT is the first of the two ports (8080); NAP_SO names
# another mod_nap.so.
set -euo pipefail

target=$(realpath "$1")
so=$(realpath "${NAP_SO:-$target/release/mod_nap.so}")
httpd=$(apxs -q SBINDIR)/$(apxs -q PROGNAME)
modules=$(apxs -q LIBEXECDIR)
root=$(mktemp -d "${TMPDIR:-/tmp}/nap-demo.XXXXXX")
chmod 755 "$root"
pids=()

stop() {
  trap - EXIT INT TERM
  for pid in "${pids[@]}"; do kill -TERM "$pid" 2>/dev/null || :; done
  for pid in "${pids[@]}"; do wait "$pid" || :; done
  rm -rf "$root"
}
trap stop EXIT
trap 'exit 0' INT TERM

# Whether nobody listens there.
free() { ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

next_port=${DEMO_PORT:-8080}
take_port() {
  until free "$next_port"; do next_port=$((next_port + 1)); done
  port=$next_port
  next_port=$((next_port + 1))
}

load() {
  local name
  for name in "$@"; do
    [ ! -e "$modules/mod_$name.so" ] || echo "LoadModule ${name}_module $modules/mod_$name.so"
  done
}

# write_config NAME PORT: what both servers have in common, to stdout.
write_config() {
  load mpm_event unixd log_config authz_core authz_host alias cgid env status
  [ "$(id -u)" -ne 0 ] || printf 'User www-data\nGroup www-data\n'
  cat <<CONF
ServerRoot $root/$1
DefaultRuntimeDir $root/$1
PidFile pid
ScriptSock cgisock
ErrorLog error_log
ServerName localhost
Listen 127.0.0.1:$2
ListenBacklog 2048
# 768 visitors may be served or waiting at once: few children with many threads, because a child
# that is full of waiters refuses although another has room.
ServerLimit 4
ThreadLimit 384
ThreadsPerChild 384
MaxRequestWorkers 768
StartServers 2
MinSpareThreads 75
MaxSpareThreads 768
SetEnv BOARD_DIR $root/$1/data
SetEnv BOARD_CPU_MS ${BOARD_CPU_MS:-30}
SetEnv BOARD_SLEEP_MS ${BOARD_SLEEP_MS:-0}
ScriptAlias /board $root/board
<Directory $root>
  Require all granted
</Directory>
<Location "/server-status">
  SetHandler server-status
  Require local
</Location>
CONF
}

start() {
  local name=$1
  # A session of its own: httpd takes the SIGWINCH of a resized terminal for graceful-stop.
  setsid "$httpd" -d "$root/$name" -f "$root/$name/httpd.conf" -D FOREGROUND 2>"$root/$name/stderr" &
  pids+=($!)
  for _ in $(seq 100); do
    free "$port" || return 0
    kill -0 $! 2>/dev/null || break
    sleep 0.1
  done
  echo "demo: httpd did not start:" >&2
  cat "$root/$name/stderr" "$root/$name/error_log" >&2
  exit 1
}

install -m 755 "$target/cgi/board" "$root/board"
for name in bare nap; do
  install -d -m 755 "$root/$name"
  install -d -m 777 "$root/$name/data"
done

take_port
bare=$port
write_config bare "$bare" >"$root/bare/httpd.conf"
start bare

take_port
nap=$port
write_config nap "$nap" >"$root/nap/httpd.conf"
cat >>"$root/nap/httpd.conf" <<CONF
LoadModule nap_module $so
<NapRoom board>
  NapRunReady 10
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
start nap

cat <<TEXT

  A bulletin board, ${BOARD_CPU_MS:-30} ms of processor time a request, twice on one machine:

    with mod_nap      http://127.0.0.1:$nap/board      its room: http://127.0.0.1:$nap/nap-info
    without           http://127.0.0.1:$bare/board

  Send a crowd, in another terminal, and keep one of the boards open in a browser meanwhile:

    $1/release/nap-load --clients 200 --posts 5 http://127.0.0.1:$nap/board
    $1/release/nap-load --clients 200 --posts 5 http://127.0.0.1:$bare/board

  With mod_nap you wait four seconds at most, or you are told when to come and are let in then;
  /nap-info shows who runs, who waits and which tickets are out. Without it everybody waits as
  long as it takes.

  Configuration and logs: $root    Ctrl-C ends both servers.

TEXT
wait -n "${pids[@]}" || :
echo "demo: one of the servers has ended; its error log:" >&2
tail -n 5 "$root"/*/error_log >&2
exit 1
