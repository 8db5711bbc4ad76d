# What the demos share: private httpds (event) on loopback under a temp directory. Sourced.
#
# Sets $root, the directory, $target and $so. DEMO_PORT is the first port to try (8080);
# NAP_SO names another mod_nap.so.

target=$(realpath "$1")
so=$(realpath "${NAP_SO:-$target/release/mod_nap.so}")
httpd=$(apxs -q SBINDIR)/$(apxs -q PROGNAME)
modules=$(apxs -q LIBEXECDIR)
root=$(mktemp -d "${TMPDIR:-/tmp}/nap-demo.XXXXXX")
chmod 755 "$root"
pids=()
# Processes of ours that are not jobs of this shell.
apart=()

stop() {
  trap - EXIT INT TERM
  for pid in "${pids[@]}" "${apart[@]}"; do kill -TERM "$pid" 2>/dev/null || :; done
  for pid in "${pids[@]}"; do wait "$pid" || :; done
  for pid in "${apart[@]}"; do
    while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
  done
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

# common_config NAME PORT MODULE...: writes what every server of a demo has to stdout.
common_config() {
  local name=$1 port=$2
  shift 2
  load mpm_event unixd log_config authz_core authz_host alias env status "$@"
  [ "$(id -u)" -ne 0 ] || printf 'User www-data\nGroup www-data\n'
  cat <<CONF
ServerRoot $root/$name
DefaultRuntimeDir $root/$name
PidFile pid
ErrorLog error_log
ServerName localhost
Listen 127.0.0.1:$port
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

# Waits until Ctrl-C; if a server ends by itself, prints its last words.
wait_for_the_end() {
  wait -n "${pids[@]}" || :
  echo "demo: one of the servers has ended; its error log:" >&2
  tail -n 5 "$root"/*/error_log >&2
  exit 1
}
