#!/usr/bin/env bash
# The shop behind mod_nap and without it, side by side: demo/shop/demo.sh TARGET-DIRECTORY
#
# Starts two private httpds (event) on loopback from a temp directory, each with a PHP-FPM and a
# PostgreSQL of its own (serve.sh), says what to open and what to try, and stops them all at Ctrl-C.
set -euo pipefail

here=$(dirname "$(realpath "$0")")
. "$here/../httpd.sh"

# An application server and its database in $root/NAME.
shop() {
  local said=$root/$1/said keep
  # It runs as long as this end of the pipe is open.
  exec {keep}> >("$here/serve.sh" "$root/$1/shop" >"$said")
  apart+=($!)
  until [ -s "$said" ]; do
    kill -0 $! 2>/dev/null || exit 1
    sleep 0.1
  done
}

# write_config NAME PORT: writes what both servers share to stdout.
write_config() {
  common_config "$1" "$2" proxy proxy_fcgi
  cat <<CONF
AliasMatch "^/shop/([a-z]+)$" "$root/$1/shop/pages/\$1.php"
<FilesMatch "\.php$">
  SetHandler "proxy:unix:$root/$1/shop/fpm.sock|fcgi://shop"
</FilesMatch>
# The crowd without mod_nap waits for minutes.
ProxyTimeout 600
CONF
}

for name in bare nap; do
  install -d -m 755 "$root/$name"
  shop "$name"
  take_port
  write_config "$name" "$port" >"$root/$name/httpd.conf"
  case $name in
    bare) bare=$port ;;
    nap) nap=$port
      cat >>"$root/nap/httpd.conf" <<CONF
LoadModule nap_module $so
<NapRoom shop>
  # Visitors who have logged in are served in the end: only the search is worth a limit of its own, and
  # they wait for it as long as a browser does.
  NapPage search ^/shop/search$
  NapSession cookie=shop start=^/shop/login$ end=^/shop/logout$ idle=2min
  NapWaitMax 1min
</NapRoom>
<Location "/shop">
  NapUse shop
</Location>
<Location "/nap-info">
  SetHandler nap-info
  Require local
</Location>
CONF
  esac
  start "$name"
done

pages="/shop/login /shop/new '/shop/list?category={number}' '/shop/article?article={number}' '/shop/search?q={number}' 'POST:/shop/buy?article={number}' /shop/logout"
cat <<TEXT

  A shop of seven pages, twice on one machine; its search is the heavy page:

    with mod_nap      http://127.0.0.1:$nap/shop/login      its room: http://127.0.0.1:$nap/nap-info
    without           http://127.0.0.1:$bare/shop/login

  Send clients through all of it, in another terminal, and visit one of the shops meanwhile:

    $1/release/nap-load sessions -c 100 --timeout 30s --stop 3min http://127.0.0.1:$nap $pages

    $1/release/nap-load sessions -c 100 --timeout 30s --stop 3min http://127.0.0.1:$bare $pages

  docs/shop.md says what to see.    Configuration and logs: $root    Ctrl-C ends all servers.

TEXT
wait_for_the_end
