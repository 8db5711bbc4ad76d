#!/usr/bin/env bash
# Builds the Debian package, runs lintian, and installs, uses and purges it in a clean Debian root. Also
# checks that `make uninstall` removes from a folder what `make install` put into it.
#
# Its httpd listens on this machine's loopback, on a free port.
set -euo pipefail
cd "$(dirname "$0")/.."
skip() { echo "package: $1, so the package is not tested"; exit 0; }
needs="lintian dh dh_apache2"
. tests/clean-root.sh

deb=$(deb)
lintian --fail-on error --allow-root "$deb" >"$kept/lintian.log" || { cat "$kept/lintian.log"; exit 1; } >&2

staged=$kept/staged
rm -rf "$staged" && mkdir "$staged"
make --no-print-directory install DESTDIR="$(realpath "$staged")" PREFIX=/usr >>"$log"
installed=$(find "$staged" ! -type d -printf '%f\n' | sort | paste -sd' ')
[ "$installed" = 'mod_nap.7 mod_nap.so mod_nap.so.debug nap-agent nap-load nap-sim' ] ||
  { echo "package: make install has installed $installed" >&2; exit 1; }
make --no-print-directory uninstall DESTDIR="$(realpath "$staged")" PREFIX=/usr >>"$log"
left=$(find "$staged" ! -type d -o -name .debug)
[ -z "$left" ] || { echo "package: make uninstall leaves $left" >&2; exit 1; }

clean_root
quietly apt-get update
quietly apt-get install -y --no-install-recommends apache2

# The package manager's own records do not belong to the package, nor do the folders of a2enmod.
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

# Everything the installed pages link to exists, as in the source; pages for developers lead there.
python3 - "$root/usr/share/doc/libapache2-mod-nap" <<'PYTHON'
import pathlib, re, sys
doc = pathlib.Path(sys.argv[1])
links = [(page.relative_to(doc), page.parent, link[0] or link[1])
         for page in sorted(doc.rglob("*.md")) if page.parent.name != "dev" and page.name != "CONTRIBUTING.md"
         for link in re.findall(r'\]\(([^)#]+)|<img src="([^"#]+)"', page.read_text())]
links = [link for link in links if "://" not in link[2] and not link[2].startswith("/")]
dead = [f"{page}: {link}" for page, folder, link in links if not (folder / link).exists()]
if dead or len(links) < 50:
    sys.exit(f"package: of {len(links)} links of the installed pages these lead nowhere: {dead}")
PYTHON

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
quietly apache2ctl start
url=http://127.0.0.1:$port
for _ in $(seq 100); do
  curl -fsS "$url/nap-info?json" >"$kept/info" 2>/dev/null && break
  sleep 0.1
done
ab -q -l -n 200 -c 20 "$url/board" >"$kept/ab" 2>&1 || { cat "$kept/ab" "$root/var/log/apache2/error.log"; exit 1; } >&2
curl -fsS "$url/nap-info?json" >"$kept/info"
sum() { grep -o "\"\($1\)\":[0-9]*" "$kept/info" | cut -d: -f2 | paste -sd+ | bc; }
counted=$(sum 'passed\|granted\|refused_in_all')
[ "$counted" = 200 ] || { echo "package: 200 accesses were sent, /nap-info has counted $counted" >&2; exit 1; }
# Twenty at a time, of which two run: hardly anybody is let in at once.
limited=$(sum 'granted\|refused_in_all')
[ "$limited" -ge 100 ] || { echo "package: only $limited of 200 accesses waited" >&2; exit 1; }
stop_httpd

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
echo "package: $(basename "$deb"): lintian without errors ($tags warnings); installed, enabled, 200 accesses scheduled, purged without a trace; make uninstall leaves nothing"
