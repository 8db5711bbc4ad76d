#!/usr/bin/env bash
# Follows docs/quick-start.md to the letter in a clean Debian root: types each of its commands in order,
# except the way from source, and puts the configuration where the text says.
#
# The reader has httpd and a shop (the board stands for one). From step 2 on everything happens in a
# network of its own, where port 80 is free.
set -euo pipefail
cd "$(dirname "$0")/.."
skip() { echo "quick start: $1, so it is not followed"; exit 0; }
needs="dh dh_apache2"
. tests/clean-root.sh
unshare -n true 2>/dev/null || skip "no network namespace can be made"

page=docs/quick-start.md
# The commands of both languages are the same, comments apart.
blocks() { awk '/^```/ { inside = !inside; next } inside' "$1" | sed 's/ *#.*//'; }
diff <(blocks $page) <(blocks docs/quick-start.ja.md) | grep -v '^[<>] mod_nap/' | grep '^[<>]' &&
  { echo "quick start: the commands of the two languages differ" >&2; exit 1; }

# The block of this language and number, from 1.
block() { awk -v start="^\`\`\`$1\$" -v n="$2" '/^```/ { if (shown) exit; if ($0 ~ start && ++seen == n) shown = 1; next } shown' $page; }

package=$(deb)
clean_root
quietly apt-get update
quietly apt-get install -y --no-install-recommends apache2 curl
cp "$target/cgi/board" "$root/usr/lib/cgi-bin/board"
cat >"$root/etc/apache2/conf-available/app.conf" <<'CONF'
ServerName localhost
ScriptAlias /shop /usr/lib/cgi-bin/board
SetEnv BOARD_DIR /var/www
SetEnv BOARD_CPU_MS 3
CONF
quietly chown www-data /var/www
quietly a2enmod cgid
quietly a2enconf app
cp "$package" "$root/root/"

# 1. Install. Questions whether to go on are answered with yes.
block sh 1 >"$root/root/install"
grep -q '^apt install' "$root/root/install" || { echo "quick start: step 1 installs nothing" >&2; exit 1; }
quietly bash -c 'cd /root && yes | bash -e install'

# 2. Protect: the file from the text.
conf=$(grep -o '/etc/apache2/conf-available/[a-z]*\.conf' $page | head -n 1)
block apache 1 >"$root$conf"
{
  echo 'set -e -o pipefail; cd /root'
  echo 'apachectl start' # httpd was there before
  for n in 3 4 5; do block sh $n; done
  # What must be visible then; and nobody is told to go on before the last one was served.
  echo "curl -s 'http://localhost/nap-info?json'"
} >"$root/root/steps"
unshare -n bash -c 'ip link set lo up && exec chroot "$0" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin bash /root/steps' "$root" \
  >"$kept/steps" 2>&1 || { tail -n 30 "$kept/steps" "$root/var/log/apache2/error.log"; exit 1; } >&2

grep -q '"GET /shop' "$root/var/log/apache2/access.log" && ! grep -q '"POST ' "$root/var/log/apache2/access.log" ||
  { echo "quick start: its crowd posts to the reader's own site"; exit 1; } >&2
grep -q '^Syntax OK' "$kept/steps" && grep -q 'room site (run ready 10' "$root/var/log/apache2/error.log" &&
  grep -q '"summary":"Quiet' "$kept/steps" || { cat "$kept/steps"; echo "quick start: step 2 or 3 does not say what it should"; exit 1; } >&2
counted=$(tail -n 1 "$kept/steps" | grep -o '"\(passed\|granted\)":[0-9]*' | cut -d: -f2 | paste -sd+ | bc)
[ "$counted" -ge 1000 ] || { tail -n 40 "$kept/steps"; echo "quick start: of 1000 reads $counted were let in"; exit 1; } >&2
echo "quick start: followed in a clean root; $counted accesses scheduled"
