#!/usr/bin/env bash
# Builds the Debian package, asks lintian, and installs, uses and purges it in a clean Debian root.
#
# The root is made by debootstrap once and kept in target/package/; what happens in it happens in a copy. Its
# httpd listens on loopback of this machine, on a port that was free.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
kept=$target/package
mkdir -p "$kept"

skip() { echo "package: $1, so the package is not tested"; exit 0; }
[ "$(id -u)" = 0 ] || skip "debootstrap and chroot want root"
for program in debootstrap lintian dh dh_apache2; do
  command -v $program >/dev/null || skip "$program is missing (\`make setup-all\` installs it)"
done

make --no-print-directory deb >"$kept/build.log" 2>&1 || { tail -n 30 "$kept/build.log"; exit 1; } >&2
deb=$(compgen -G "$target/deb/libapache2-mod-nap_*.deb")
lintian --fail-on error --allow-root "$deb" >"$kept/lintian.log" || { cat "$kept/lintian.log"; exit 1; } >&2

mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Codename: bookworm' | head -n 1)
if [ ! -e "$kept/base.tar" ]; then
  echo "package: making a clean Debian root with debootstrap"
  rm -rf "$kept/base"
  debootstrap --variant=minbase --include=ca-certificates bookworm "$kept/base" \
    "${mirror:-http://deb.debian.org/debian}" >"$kept/debootstrap.log" 2>&1 ||
    { tail -n 20 "$kept/debootstrap.log" >&2; exit 1; }
  cp -a /etc/apt/apt.conf.d/. "$kept/base/etc/apt/apt.conf.d/"
  cp /etc/apt/sources.list "$kept/base/etc/apt/" 2>/dev/null || :
  cp -a /etc/apt/sources.list.d/. "$kept/base/etc/apt/sources.list.d/" 2>/dev/null || :
  # A package that is installed starts no server of its own.
  printf '#!/bin/sh\nexit 101\n' >"$kept/base/usr/sbin/policy-rc.d"
  chmod +x "$kept/base/usr/sbin/policy-rc.d"
  tar -C "$kept/base" -cf "$kept/base.tar.new" .
  mv "$kept/base.tar.new" "$kept/base.tar"
  rm -rf "$kept/base"
fi

root=$(mktemp -d)
server=
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }
stop() {
  [ -z "$server" ] || inside apache2ctl stop >/dev/null 2>&1 || :
  server=
}
clean() {
  stop
  umount "$root/proc" 2>/dev/null || :
  rm -rf --one-file-system "$root"
}
trap clean EXIT
tar -C "$root" -xf "$kept/base.tar"
mount -t proc proc "$root/proc"
cp /etc/resolv.conf "$root/etc/resolv.conf"
cp /etc/hosts "$root/etc/hosts"
say() { echo "$*" >>"$kept/inside.log"; }
: >"$kept/inside.log"
quietly() { inside "$@" >>"$kept/inside.log" 2>&1 || { tail -n 20 "$kept/inside.log"; echo "package: failed: $*"; exit 1; } >&2; }
quietly apt-get update
quietly apt-get install -y --no-install-recommends apache2

# What the package manager itself remembers is not the package's, nor are the folders of a2enmod.
files() {
  find "$root" -xdev -not -path "$root/proc*" -not -path "$root/var/lib/dpkg/*" -not -path "$root/var/log/*" \
    -not -path "$root/var/lib/apt/*" -not -path "$root/var/cache/*" -not -path "$root/tmp/*" \
    -not -path "$root/run/*" -not \( -type d -path "$root/var/lib/apache2/*" \) -printf '%P %l\n' | sort
}
files >"$kept/before"
cp "$deb" "$root/tmp/"
quietly sh -c 'apt-get install -y --no-install-recommends /tmp/libapache2-mod-nap_*.deb'
quietly a2enmod nap
quietly apache2ctl configtest

# Three lines protect the demo.
cp "$target/cgi/board" "$root/usr/lib/cgi-bin/board"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
echo "Listen 127.0.0.1:$port" >"$root/etc/apache2/ports.conf"
sed -i "s/\*:80/127.0.0.1:$port/" "$root/etc/apache2/sites-available/000-default.conf"
cat >"$root/etc/apache2/conf-available/demo.conf" <<'CONF'
ServerName localhost
ScriptAlias /board /usr/lib/cgi-bin/board
SetEnv BOARD_DIR /var/www
<NapRoom site>
    NapRunReady 2
</NapRoom>
<Location "/board">
    NapUse site
</Location>
<Location "/nap-info">
    SetHandler nap-info
    Require local
</Location>
CONF
inside chown www-data /var/www
quietly a2enmod cgid
quietly a2enconf demo
quietly apache2ctl configtest
server=1
quietly apache2ctl start
url=http://127.0.0.1:$port
for _ in $(seq 100); do
  curl -fsS "$url/nap-info?json" >"$kept/info" 2>/dev/null && break
  sleep 0.1
done
ab -q -l -n 200 -c 20 "$url/board" >"$kept/ab" 2>&1 || { cat "$kept/ab" "$root/var/log/apache2/error.log"; exit 1; } >&2
curl -fsS "$url/nap-info?json" >"$kept/info"
counted=$(grep -o '"\(passed\|granted\|refused_in_all\)":[0-9]*' "$kept/info" | cut -d: -f2 | paste -sd+ | bc)
[ "$counted" = 200 ] || { echo "package: 200 accesses were sent, /nap-info has counted $counted" >&2; exit 1; }
stop

rm "$root/usr/lib/cgi-bin/board" "$root/etc/apache2/conf-available/demo.conf" "$root/etc/apache2/conf-enabled/demo.conf"
rm -f "$root"/var/www/board* "$root"/var/www/lock "$root"/etc/apache2/mods-enabled/cgid.* "$root"/var/lib/apache2/conf/enabled_by_admin/demo \
  "$root"/var/lib/apache2/module/enabled_by_admin/cgid
touch "$root/var/lib/mod_nap/state"
quietly apt-get purge -y libapache2-mod-nap
rm -f "$root"/tmp/*.deb
files >"$kept/after"
if ! diff "$kept/before" "$kept/after" >"$kept/left"; then
  echo "package: purging it leaves a difference:" >&2
  cat "$kept/left" >&2
  exit 1
fi
tags=$(grep -c '^W:' "$kept/lintian.log" || :)
echo "package: $(basename "$deb"): lintian without errors ($tags warnings); installed, enabled, 200 accesses scheduled, purged without a trace"
