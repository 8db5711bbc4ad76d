#!/usr/bin/env bash
# Builds docker/Dockerfile, starts docker/compose.yaml (httpd with mod_nap before two application
# servers) and lets ab and nap-load judge it from another container: statuses, tickets, the pages for
# the administrator, a killed application server, a restart with the tickets of before.
#
# Without an engine it says so and passes. Where the base images cannot be pulled, it makes stand-ins
# from Debian's packages and this machine's own Rust toolchain (debootstrap, root), under names of
# their own: no image poses as another's.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! docker version >/dev/null 2>&1; then
  echo "docker: no engine answers here, so the image is not built or tested"
  exit 0
fi
if ! docker compose version >/dev/null 2>&1 && ! command -v docker-compose >/dev/null; then
  echo "docker: there is an engine but no compose, so the image is not built or tested"
  exit 0
fi

scratch=$(mktemp -d)
project=
compose() {
  if docker compose version >/dev/null 2>&1; then
    docker compose -p "$project" -f docker/compose.yaml "$@"
  else
    docker-compose -p "$project" -f docker/compose.yaml "$@"
  fi
}
clean() {
  [ -z "$project" ] || compose down -v -t 1 >/dev/null 2>&1 || :
  rm -rf "$scratch"
}
trap clean EXIT

have() { docker image inspect "$1" >/dev/null 2>&1; }

# Debian of this machine's sources, as small as debootstrap makes it.
stand_in_base() {
  local mirror
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Codename: bookworm' | head -n 1)
  echo "docker: debian:bookworm-slim cannot be pulled; making a stand-in with debootstrap"
  debootstrap --variant=minbase --include=ca-certificates bookworm "$scratch/base" \
    "${mirror:-http://deb.debian.org/debian}" >"$scratch/log" 2>&1 ||
    { tail -n 20 "$scratch/log" >&2; return 1; }
  cp -a /etc/apt/apt.conf.d/. "$scratch/base/etc/apt/apt.conf.d/"
  rm -rf "$scratch"/base/var/cache/apt/archives/*.deb
  tar -C "$scratch/base" -c . | docker import - nap-stand-in:base >/dev/null
  rm -rf "$scratch/base"
}

# The same with this machine's cc and Rust, and the crates that Cargo.lock names.
stand_in_rust() {
  local sysroot home=${CARGO_HOME:-$HOME/.cargo}
  echo "docker: rust:slim-bookworm cannot be pulled; making a stand-in of this machine's toolchain"
  cargo fetch --locked --quiet
  sysroot=$(rustc --print sysroot)
  mkdir -p "$scratch/rust/toolchain/lib" "$scratch/rust/cargo/registry"
  cp -a "$sysroot/bin" "$scratch/rust/toolchain/"
  cp -a "$sysroot"/lib/*.so* "$scratch/rust/toolchain/lib/"
  cp -a "$sysroot/lib/rustlib" "$scratch/rust/toolchain/lib/"
  cp -a "$home/registry/cache" "$home/registry/index" "$scratch/rust/cargo/registry/"
  cat >"$scratch/rust/Dockerfile" <<'DOCKERFILE'
ARG BASE
FROM ${BASE}
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev
COPY toolchain /usr/local/rust
COPY cargo /usr/local/cargo
ENV PATH=/usr/local/rust/bin:$PATH CARGO_HOME=/usr/local/cargo CARGO_NET_OFFLINE=true
DOCKERFILE
  docker build --force-rm --network=host --build-arg "BASE=$base" -t "$rust" "$scratch/rust" >"$scratch/log" 2>&1 ||
    { tail -n 20 "$scratch/log" >&2; return 1; }
}

available() { have "$1" || docker pull -q "$1" >/dev/null 2>&1; }

base=debian:bookworm-slim
if ! available $base; then
  base=nap-stand-in:base
  have $base || stand_in_base
fi
rust=rust:slim-bookworm
if ! available $rust; then
  # Another toolchain or other crates need another stand-in.
  rust=nap-stand-in:rust-$(rustc --version | cat - Cargo.lock | md5sum | cut -c1-12)
  have "$rust" || stand_in_rust
fi
# The host's network: a build may have no other way out.
docker build --force-rm --network=host -f docker/Dockerfile --build-arg "BASE_IMAGE=$base" \
  --build-arg "RUST_IMAGE=$rust" -t mod_nap:test . >"$scratch/log" 2>&1 ||
  { tail -n 40 "$scratch/log" >&2; exit 1; }

project=nap-test-$$
export NAP_IMAGE=mod_nap:test NAP_PORT=0
compose up -d --no-build >"$scratch/up" 2>&1 || { cat "$scratch/up"; exit 1; } >&2
web=$(compose ps -q web)
network=$(docker inspect -f '{{range $name, $_ := .NetworkSettings.Networks}}{{$name}}{{end}}' "$web")
client() { docker run --rm --network "$network" --entrypoint "$1" mod_nap:test "${@:2}"; }
fail() {
  echo "docker: $*"
  docker exec "$web" tail -n 20 /var/log/apache2/error.log
  docker exec "$web" awk '{ n[$9]++ } END { for (status in n) print n[status], "x", status }' /var/log/apache2/access.log
  exit 1
} >&2
# What a page says when a container of this network asks for it.
page() {
  client bash -c 'exec 3<>"/dev/tcp/web/80"; printf "GET $0 HTTP/1.0\r\n$1\r\n" >&3; cat <&3' "$@"
}
health() { docker inspect -f '{{.State.Health.Status}}' "$web"; }
until_healthy() {
  for _ in $(seq 600); do
    [ "$(health)" = healthy ] && return
    sleep 0.1
  done
  fail "the container is not healthy but $(health)"
}
until_healthy
[ "$(docker exec "$web" bash -c 'for p in /proc/[0-9]*; do
  grep -qs ^apache2 "$p/comm" && stat -c %U "$p"; done | sort -u | paste -sd,')" = root,www-data ] ||
  fail "the children are not www-data"

# Each request is answered: 200 or, with a ticket, 503.
crowd() {
  client ab -l "$@" http://web/board >"$scratch/ab" 2>&1 || { cat "$scratch/ab"; fail "ab $*"; } >&2
  grep -q '^Failed requests: *0$' "$scratch/ab" && grep -q "^Complete requests: *$n$" "$scratch/ab" ||
    { cat "$scratch/ab"; fail "ab $*"; } >&2
}
n=3000
crowd -n $n -c 100
plain=$(grep '^Requests per second' "$scratch/ab")
crowd -k -n $n -c 100

# What the module has counted is what visitors were told.
page '/nap-info?json' >"$scratch/info"
counted() { grep -o "\"$1\":[0-9]*" "$scratch/info" | cut -d: -f2; }
told() { docker exec "$web" cat /var/log/apache2/access.log | awk -v status="$1" '$7 ~ "^/board" && $9 ~ status' | wc -l; }
[ "$(told '^200$')" = $(($(counted passed) + $(counted granted))) ] &&
  [ "$(told '^503$')" = "$(counted refused_in_all)" ] && [ "$(told '^(200|503)$')" = $((2 * n)) ] ||
  fail "the access log and /nap-info disagree, or a status is neither 200 nor 503: $(cat "$scratch/info")"

# Visitors who come back when their ticket says: all of them are let in.
client nap-load --allow-remote --json - -c 150 -n 4 http://web/board >"$scratch/crowd" 2>"$scratch/said" ||
  { tail -n 20 "$scratch/said" "$scratch/crowd"; fail "nap-load"; } >&2
page '/nap-info?json' >"$scratch/info"
sold=$(counted sold) kept=$(counted kept) broken=$(counted broken)
[ "$kept" -gt 0 ] && [ "$broken" = 0 ] || fail "of $sold tickets $kept were kept and $broken broken"

page /bwshare-info | grep -q 'mod_bwshare' || fail "no /bwshare-info"
page /nap-metrics | grep -q '^nap_tickets_kept{room="site",gate=""} [1-9]' || fail "no /nap-metrics"

# An application server dies: the other has all, and nobody sees an error but of the first who meet it.
before=$(told '^50[024]$')
docker kill "$(compose ps -q app2)" >/dev/null
client ab -l -n 200 -c 4 http://web/board >"$scratch/ab" 2>&1 || fail "ab after the death of app2"
[ "$(told '^50[024]$')" = "$before" ] || fail "errors although app1 lives"

# A ticket outlives a full restart.
client ab -l -n 400 -c 100 http://web/board >/dev/null 2>&1 &
for _ in $(seq 100); do
  page /board >"$scratch/refused" || :
  ticket=$(tr -d '\r' <"$scratch/refused" | sed -n 's/^Nap-Ticket: //p')
  [ -z "$ticket" ] || break
done
wait $!
[ -n "$ticket" ] || fail "nobody was sold a ticket"
epoch() { page '/nap-info?json' | grep -o '"epoch":"[0-9a-f]*"'; }
old=$(epoch)
compose stop -t 20 web >/dev/null 2>&1
compose start web >/dev/null 2>&1
until_healthy
[ "$(epoch)" = "$old" ] || fail "the state file was not taken over"
page /.nap/ticket "Nap-Ticket: $ticket\r\n" | head -n 1 | grep -q ' 200 ' || fail "the ticket is forgotten"

if docker exec "$web" cat /var/log/apache2/error.log | grep -E ':(warn|error|crit|alert|emerg)\]|exit signal' |
  grep -vE 'AH01114|AH00957|AH00959|AH01030|AH01102|this room wants MaxRequestWorkers' >&2; then
  fail "the lines above were not expected in the error log"
fi
echo "docker: built; ab 2 x $n: $plain; nap-load: $kept tickets kept, $broken broken; an application server" \
  "killed without an error; a ticket outlived a restart"
