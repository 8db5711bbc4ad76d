#!/usr/bin/env bash
# The board behind mod_nap and without it, side by side: demo.sh TARGET-DIRECTORY
#
# Starts two private httpds (event) on loopback from a temp directory, says what to open and what
# to try, and stops both at Ctrl-C. DEMO_PORT is the first of the two ports (8080); NAP_SO names
# another mod_nap.so.
set -euo pipefail

. "$(dirname "$0")/httpd.sh"

# write_config NAME PORT: writes what both servers share to stdout.
write_config() {
  common_config "$1" "$2" cgid
  cat <<CONF
ScriptSock cgisock
SetEnv BOARD_DIR $root/$1/data
SetEnv BOARD_CPU_MS ${BOARD_CPU_MS:-30}
SetEnv BOARD_SLEEP_MS ${BOARD_SLEEP_MS:-0}
ScriptAlias /board $root/board
CONF
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
wait_for_the_end
