# A clean Debian root to try things in: sourced by package.sh, quick-start.sh and from-source.sh, with
# bash's `set -eu`.
#
# debootstrap makes it once, and it is kept in target/package/; everything happens in a copy, in $root,
# which is removed when the script ends. Calls `skip REASON` if it cannot be made, or if one of the
# programs in $needs is missing.
target=${CARGO_TARGET_DIR:-target}
kept=$target/package
mkdir -p "$kept"
log=$kept/$(basename "$0" .sh).log
: >"$log"

[ "$(id -u)" = 0 ] || skip "debootstrap and chroot want root"
for program in debootstrap ${needs:-}; do
  command -v $program >/dev/null || skip "$program is missing (\`make setup-all\` installs it)"
done

# The package, built from the tree as it is.
deb() {
  make --no-print-directory deb >"$kept/build.log" 2>&1 || { tail -n 30 "$kept/build.log"; exit 1; } >&2
  compgen -G "$target/deb/libapache2-mod-nap_*.deb"
}

make_base() {
  local mirror
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Codename: bookworm' | head -n 1)
  rm -rf "$kept/base"
  debootstrap --variant=minbase --include=ca-certificates bookworm "$kept/base" \
    "${mirror:-http://deb.debian.org/debian}" >"$kept/debootstrap.log" 2>&1 ||
    { tail -n 20 "$kept/debootstrap.log" >&2; exit 1; }
  cp -a /etc/apt/apt.conf.d/. "$kept/base/etc/apt/apt.conf.d/"
  cp /etc/apt/sources.list "$kept/base/etc/apt/" 2>/dev/null || :
  cp -a /etc/apt/sources.list.d/. "$kept/base/etc/apt/sources.list.d/" 2>/dev/null || :
  # An installed package starts no server of its own.
  printf '#!/bin/sh\nexit 101\n' >"$kept/base/usr/sbin/policy-rc.d"
  chmod +x "$kept/base/usr/sbin/policy-rc.d"
  tar -C "$kept/base" -cf "$kept/base.tar.new" .
  mv "$kept/base.tar.new" "$kept/base.tar"
  rm -rf "$kept/base"
}

root=
# httpd in the root is the only one that ran there.
stop_httpd() {
  local pid
  pid=$(cat "$root/run/apache2/apache2.pid" 2>/dev/null) || return 0
  kill "$pid" 2>/dev/null || :
  for _ in $(seq 100); do
    [ -e "/proc/$pid" ] || return 0
    sleep 0.1
  done
}
# Process ids of what runs in the root.
running() {
  local p
  for p in /proc/[0-9]*; do [ "$(readlink "$p/root")" != "$root" ] || echo "${p#/proc/}"; done
}
remove_root() {
  stop_httpd
  # A script that failed midway may leave more.
  running | xargs -r kill 2>/dev/null || :
  for _ in $(seq 100); do
    [ -n "$(running)" ] || break
    sleep 0.1
  done
  umount "$root/proc" 2>/dev/null || :
  rm -rf --one-file-system "$root"
}

clean_root() {
  if [ ! -e "$kept/base.tar" ]; then
    echo "making a clean Debian root with debootstrap"
    make_base
  fi
  root=$(mktemp -d)
  trap remove_root EXIT
  tar -C "$root" -xf "$kept/base.tar"
  mount -t proc proc "$root/proc"
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  cp /etc/hosts "$root/etc/hosts"
}

# inside COMMAND...: runs it in the root, quietly: its output goes to the log, and is shown if it fails.
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }
quietly() { inside "$@" >>"$log" 2>&1 || { tail -n 20 "$log"; echo "failed: $*"; exit 1; } >&2; }
