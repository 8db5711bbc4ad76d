#!/usr/bin/env bash
# The base images of docker/Dockerfile where none can be pulled: made from Debian's packages
# (debootstrap, root) and this machine's own Rust toolchain, under the same tags, so that every command
# of the docs works without a registry.
#
#   docker/base-images.sh           makes those that are not there and cannot be pulled
#   docker/base-images.sh fleet     also those of docker/fleet.yaml: HAProxy and Valkey
#   docker/base-images.sh remove    takes the tags from what it has made
#
# What it makes keeps a name of its own (nap-stand-in:..), by which it is known and from which the tags
# are given again at once. An image that was pulled is left alone.
set -euo pipefail
cd "$(dirname "$0")/.."
base=debian:bookworm-slim
rust=rust:slim-bookworm
haproxy=haproxy:lts
valkey=valkey/valkey:8

have() { docker image inspect "$1" >/dev/null 2>&1; }
is_stand_in() {
  local id
  id=$(docker image inspect -f '{{.Id}}' "$1" 2>/dev/null) && docker images -q --no-trunc nap-stand-in | grep -qx "$id"
}
# A real image of this tag is there now.
is_real() {
  is_stand_in "$1" || ! have "$1" || return 0
  docker pull -q "$1" >/dev/null 2>&1
}

if [ "${1:-}" = remove ]; then
  for tag in $valkey $haproxy $rust $base; do
    ! is_stand_in $tag || docker rmi --no-prune $tag >/dev/null
  done
  exit 0
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
quietly() { "$@" >"$scratch/log" 2>&1 || { tail -n 20 "$scratch/log"; return 1; } >&2; }

# The host's network: a build may have no other way out.
build() { quietly docker build --force-rm --network=host -t "$1" "$2"; }

# A Debian release from this machine's mirror, as small as debootstrap makes it: with these packages, as this image.
debian() {
  local release=$1 packages=$2 image=$3 mirror
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Codename: bookworm' | head -n 1)
  quietly debootstrap --variant=minbase --include="$packages" "$release" "$scratch/base" \
    "${mirror:-http://deb.debian.org/debian}"
  cp -a /etc/apt/apt.conf.d/. "$scratch/base/etc/apt/apt.conf.d/"
  rm -rf "$scratch"/base/var/cache/apt/archives/*.deb
  tar -C "$scratch/base" -c . | docker import "${@:4}" - "$image" >/dev/null
  rm -rf "$scratch/base"
}
make_base() { debian bookworm ca-certificates "$1"; }
# The first Debian that has a Valkey.
make_valkey() { debian trixie valkey-server "$1" --change 'USER valkey' --change 'CMD ["valkey-server"]'; }

make_haproxy() {
  mkdir "$scratch/haproxy"
  cat >"$scratch/haproxy/Dockerfile" <<DOCKERFILE
FROM $base
RUN apt-get update && apt-get install -y --no-install-recommends haproxy
USER haproxy
STOPSIGNAL SIGUSR1
CMD ["haproxy", "-W", "-db", "-f", "/usr/local/etc/haproxy/haproxy.cfg"]
DOCKERFILE
  build "$1" "$scratch/haproxy"
}

# The same with this machine's cc and Rust, and the crates that Cargo.lock names.
make_rust() {
  local sysroot home=${CARGO_HOME:-$HOME/.cargo}
  cargo fetch --locked --quiet
  sysroot=$(rustc --print sysroot)
  mkdir -p "$scratch/rust/toolchain/lib" "$scratch/rust/cargo/registry"
  cp -a "$sysroot/bin" "$scratch/rust/toolchain/"
  cp -a "$sysroot"/lib/*.so* "$scratch/rust/toolchain/lib/"
  cp -a "$sysroot/lib/rustlib" "$scratch/rust/toolchain/lib/"
  cp -a "$home/registry/cache" "$home/registry/index" "$scratch/rust/cargo/registry/"
  cat >"$scratch/rust/Dockerfile" <<DOCKERFILE
FROM $base
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev
COPY toolchain /usr/local/rust
COPY cargo /usr/local/cargo
ENV PATH=/usr/local/rust/bin:\$PATH CARGO_HOME=/usr/local/cargo CARGO_NET_OFFLINE=true
DOCKERFILE
  build "$1" "$scratch/rust"
}

# The tag, of the stand-in of this name; made if it is not there yet.
stand_in() {
  local tag=$1 own=$2 make=$3
  if ! have "$own"; then
    echo "docker: $tag cannot be pulled; making a stand-in of it"
    $make "$own"
  fi
  docker tag "$own" "$tag"
}

is_real $base || stand_in $base nap-stand-in:base make_base
# Another toolchain or other crates need another stand-in.
is_real $rust ||
  stand_in $rust "nap-stand-in:rust-$(rustc --version | cat - Cargo.lock | md5sum | cut -c1-12)" make_rust
[ "${1:-}" = fleet ] || exit 0
is_real $haproxy || stand_in $haproxy nap-stand-in:haproxy make_haproxy
is_real $valkey || stand_in $valkey nap-stand-in:valkey make_valkey
