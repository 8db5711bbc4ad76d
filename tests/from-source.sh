#!/usr/bin/env bash
# Follows README.md to the letter, from source, in a clean Debian root: a stranger with a Rust toolchain,
# a C compiler and a passwordless sudo types `make demo` and what it prints, then what "Use it" says.
#
# Of `make test` the stranger runs setup, format and clippy, module, bindings and one suite of real
# servers (FROM_SOURCE_TESTS names others, or `all`): the whole is this machine's own `make test`.
set -euo pipefail
cd "$(dirname "$0")/.."
skip() { echo "from source: $1, so it is not tried"; exit 0; }
command -v rustc >/dev/null || skip "there is no Rust toolchain"
. tests/clean-root.sh
unshare -n true 2>/dev/null || skip "no network namespace can be made"

# The block of this language and number, from 1.
block() {
  awk -v start="^\`\`\`$1\$" -v n="$2" '/^```/ { if (shown) exit; if ($0 ~ start && ++seen == n) shown = 1; next } shown' README.md
}
fail() { echo "from source: $*" >&2; exit 1; }

clean_root
quietly apt-get update
quietly apt-get install -y --no-install-recommends gcc libc6-dev make sudo curl
quietly useradd --create-home --shell /bin/bash stranger
echo 'stranger ALL=(ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/stranger"
home=$root/home/stranger

# As on any machine: mod_slotmem_shm of the stranger's httpd needs it.
chmod 1777 "$root/dev/shm"

# The toolchain of this machine and the crates it has fetched, as rustup and cargo leave them.
sysroot=$(rustc --print sysroot)
mkdir -p "$home/.rust/lib" "$home/.cargo/registry" "$home/mod_nap"
cp -a "$sysroot/bin" "$home/.rust/"
cp -a "$sysroot"/lib/*.so* "$sysroot/lib/rustlib" "$home/.rust/lib/"
cargo fetch --locked --quiet
cp -a "${CARGO_HOME:-$HOME/.cargo}"/registry/{cache,index} "$home/.cargo/registry/"
# The files that git knows, as in a clone.
git ls-files -z --cached --others --exclude-standard | tar -c --null -T - | tar -C "$home/mod_nap" -x
inside chown -R stranger: /home/stranger

# Runs in the source tree, as the stranger; cargo does not ask the network for what it has.
typed() {
  inside setpriv --reuid stranger --regid stranger --init-groups env HOME=/home/stranger USER=stranger \
    PATH=/home/stranger/.rust/bin:/usr/bin:/bin CARGO_NET_OFFLINE=true \
    bash -e -o pipefail -c "cd ~/mod_nap && $1"
}
said() { typed "$1" >>"$log" 2>&1 || { tail -n 30 "$log" >&2; fail "failed: $1"; }; }
took() { echo "  $1: $(($(date +%s) - since)) s" >>"$kept/from-source.times"; since=$(date +%s); }
: >"$kept/from-source.times"
since=$(date +%s)

# The two commands.
block sh 1 | grep -q '^make demo ' && block sh 1 | grep -q '^make test ' || fail "README's two commands are others"

: >"$kept/demo"
typed 'echo $$ >~/demo.pid; exec make demo' >"$kept/demo" 2>&1 &
demo=$!
until grep -q 'Ctrl-C ends' "$kept/demo"; do
  kill -0 $demo 2>/dev/null || { tail -n 30 "$kept/demo" >&2; fail "make demo has ended"; }
  sleep 0.5
done
took 'make demo, until it answers'
for url in $(grep -o 'http://[^ ]*/board$\|http://[^ ]*/nap-info$' "$kept/demo" | sort -u); do
  inside curl -fsS "$url" >"$kept/page" || fail "$url does not answer"
  grep -qi '<!doctype html' "$kept/page" || fail "$url is not a page"
done
grep -c 'nap-load --clients' "$kept/demo" | grep -qx 2 || fail "make demo prints no crowds"
grep -o 'target/release/nap-load --clients.*' "$kept/demo" | while read -r crowd; do said "$crowd"; done
info=$(grep -o 'http://[^ ]*/nap-info$' "$kept/demo" | head -n 1)
counted=$(inside curl -fsS "$info?json" | grep -o '"\(passed\|granted\)":[0-9]*' | cut -d: -f2 | paste -sd+ | bc)
[ "$counted" -ge 1000 ] || fail "of 1000 posts to the demo $counted were let in"
kill "$(cat "$home/demo.pid")"
wait "$demo" || :
runs=$(running)
[ -z "$runs" ] || fail "make demo has ended, and these still run: $(cat $(printf '/proc/%s/comm ' $runs) | paste -sd' ')"
took 'the demo with its two crowds'

said 'make setup check-format module check-bindings'
took 'make setup check-format module check-bindings'
if [ "${FROM_SOURCE_TESTS:=configtest}" = all ]; then
  said 'make test'
else
  # The suites' programs are those of `make test`, which makes them first.
  said "make cgi programs && cargo test --locked --no-fail-fast $(printf -- '--test %s ' $FROM_SOURCE_TESTS)"
fi
took "tests: $FROM_SOURCE_TESTS"

# "Use it", on Debian's own httpd.
quietly apt-get install -y --no-install-recommends apache2
block sh 3 | grep -q 'make install' || fail "README installs otherwise"
said "$(block sh 3)"
tail -n 5 "$log" | grep -q 'LoadModule nap_module /usr/lib/apache2/modules/mod_nap.so' || fail "no LoadModule line"
cp "$target/cgi/board" "$root/usr/lib/cgi-bin/board"
cat >"$root/etc/apache2/conf-available/app.conf" <<'CONF'
ServerName localhost
ScriptAlias /shop /usr/lib/cgi-bin/board
SetEnv BOARD_DIR /var/www
CONF
block apache 1 >"$root/etc/apache2/conf-available/site.conf"
grep -q '^LoadModule' "$root/etc/apache2/conf-available/site.conf" || fail "README's configuration loads nothing"
quietly chown www-data /var/www
quietly a2enmod cgid
quietly a2enconf app site
quietly apachectl configtest
# In a network of its own, where port 80 is free.
cat >"$root/root/steps" <<'STEPS'
set -e
apachectl start
nap-load -c 50 -n 2 http://localhost/shop
man -w mod_nap 2>/dev/null || ls /usr/local/share/man/man7/mod_nap.7
curl -fsS 'http://localhost/nap-info?json'
STEPS
unshare -n bash -c 'ip link set lo up && exec chroot "$0" env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin bash /root/steps' \
  "$root" >"$kept/steps" 2>&1 || { tail -n 30 "$kept/steps" "$root/var/log/apache2/error.log" >&2; fail "not served as installed"; }
counted=$(tail -n 1 "$kept/steps" | grep -o '"\(passed\|granted\)":[0-9]*' | cut -d: -f2 | paste -sd+ | bc)
[ "$counted" -ge 100 ] || fail "of 100 posts $counted were let in"
said 'sudo make uninstall'
left=$(find "$root/usr/local" "$root/usr/lib/apache2/modules" \( -name '*mod_nap*' -o -name 'nap-*' \))
[ -z "$left" ] || fail "make uninstall leaves $left"
took "installed, configured, asked, uninstalled"
echo "from source: make demo, parts of make test (tests: $FROM_SOURCE_TESTS) and README's ten lines, by a stranger in a clean root:"
cat "$kept/from-source.times"
