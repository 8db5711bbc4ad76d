#!/usr/bin/env bash
# Builds docker/Dockerfile, runs the container on loopback, and lets ab judge it.
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

scratch=$(mktemp -d)
container=
clean() {
  [ -z "$container" ] || docker rm -f "$container" >/dev/null 2>&1 || :
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

container=$(docker run -d -p 127.0.0.1::80 mod_nap:test)
address=$(docker port "$container" 80/tcp | head -n 1)
for _ in $(seq 100); do
  curl -fsS "http://$address/board" >/dev/null 2>&1 && break
  sleep 0.1
done

ab -l -n 5000 -c 100 "http://$address/board" >"$scratch/ab" 2>&1 || { cat "$scratch/ab" >&2; exit 1; }
grep -q '^Complete requests: *5000$' "$scratch/ab" && grep -q '^Failed requests: *0$' "$scratch/ab" ||
  { cat "$scratch/ab"; docker logs "$container" 2>&1 | tail -n 20; exit 1; } >&2
curl -fsS -d text=still-there "http://$address/board" | grep -q still-there

# /nap-info answers the container itself only. What it has counted must be what clients were told.
docker exec "$container" bash -c \
  'exec 3<>/dev/tcp/127.0.0.1/80; printf "GET /nap-info?json HTTP/1.0\r\n\r\n" >&3; cat <&3' >"$scratch/info"
counted() { grep -o "\"$1\":[0-9]*" "$scratch/info" | cut -d: -f2; }
docker stop -t 20 "$container" >/dev/null
docker cp -q "$container:/var/log/apache2/error.log" "$scratch/error.log"
docker cp -q "$container:/var/log/apache2/access.log" "$scratch/access.log"
told() { awk -v status="$1" '$7 ~ "^/board" && $9 ~ status' "$scratch/access.log" | wc -l; }
if [ "$(told '^200$')" != $(($(counted passed) + $(counted granted))) ] ||
  [ "$(told '^503$')" != "$(counted refused_in_all)" ] || [ "$(told '^(200|503)$')" != "$(told .)" ]; then
  echo "docker: the access log and /nap-info disagree, or a status is neither 200 nor 503:"
  awk '{ n[$9]++ } END { for (status in n) print n[status], "x", status }' "$scratch/access.log"
  cat "$scratch/info"
  exit 1
fi >&2
if grep -E ':(warn|error|crit|alert|emerg)\]|exit signal' "$scratch/error.log" >&2; then
  echo "docker: the lines above were not expected in the container's error log" >&2
  exit 1
fi
echo "docker: image built; ab -n 5000 -c 100: $(grep '^Requests per second' "$scratch/ab")," \
  "$(counted refused_in_all) refused, all others served"
