#!/usr/bin/env bash
# Installs what is missing, by apt-get, quietly: setup.sh build|test|bench|package|browser|shop|fleet...
#
# Says nothing and takes no time if everything is there. Starts no service and enables no module of the
# machine's own httpd: only its programs are needed.
set -euo pipefail

missing=()
# need PACKAGE TEST...: the package is missing if the test fails.
need() { local package=$1; shift; "$@" >/dev/null 2>&1 || missing+=("$package"); }
has() { PATH=$PATH:/usr/sbin:/sbin command -v "$1"; }
japanese_font() { fc-list :lang=ja | grep .; }
# The newest axe-core that a package on PyPI contains complete: nothing of the package is run.
axe() {
  local folder=${CARGO_TARGET_DIR:-target}/axe wheel
  [ -e "$folder/axe.min.js" ] && return
  mkdir -p "$folder"
  if python3 -m pip download --quiet --no-deps --dest "$folder" axe-playwright-python==0.1.8 &&
     wheel=$(compgen -G "$folder/axe_playwright_python-*.whl"); then
    python3 -c 'import sys, zipfile
print(end=zipfile.ZipFile(sys.argv[1]).read("axe_playwright_python/axe.min.js").decode())' \
      "$wheel" >"$folder/axe.min.js.new"
    mv "$folder/axe.min.js.new" "$folder/axe.min.js"
  else
    echo "setup: no axe-core (python3 -m pip could not get axe-playwright-python)" >&2
    return 1
  fi
}
# Not libclang-cpp, the C++ interface, which other packages bring along and bindgen cannot use.
libclang() { compgen -G '/usr/lib/llvm-*/lib/libclang[.-][s0-9]*' || ldconfig -p | grep 'libclang[.-][s0-9]'; }

for what in "${@:-build}"; do
  case $what in
    build)
      need build-essential has cc
      need apache2-bin has apache2
      need apache2-dev has apxs ;;
    test)
      need apache2-utils has ab
      # If all of Apache is installed its package would enable it there: then it is tested if it exists.
      [ -e /usr/share/apache2/apache2-maintscript-helper ] ||
        need libapache2-mod-security2 test -e /usr/lib/apache2/modules/mod_security2.so
      need nghttp2-client has h2load
      need redis-server has redis-server
      need haproxy has haproxy
      need strace has strace
      need fonts-dejavu-core test -e /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf
      need libclang-dev libclang
      need python3-prometheus-client /usr/bin/python3 -c "import prometheus_client" ;;
    bench)
      need valgrind has valgrind
      need debootstrap has debootstrap
      need lintian has lintian ;;
    package)
      need debhelper has dh
      need fakeroot has fakeroot
      need help2man has help2man ;;
    browser)
      need chromium has chromium
      need chromium-driver has chromedriver
      need fontconfig has fc-list
      need fonts-vlgothic japanese_font
      axe ;;
    fleet)
      need redis-server has redis-server
      need haproxy has haproxy ;;
    shop)
      need postgresql compgen -G '/usr/lib/postgresql/*/bin/postgres'
      need php-fpm compgen -G '/usr/sbin/php-fpm*'
      need php-pgsql compgen -G '/usr/lib/php/*/pgsql.so' ;;
    *) echo "setup.sh: no group named $what" >&2; exit 2 ;;
  esac
done
if ! has cargo >/dev/null; then
  echo "setup: cargo is missing; a Rust toolchain must be there already (https://rustup.rs)" >&2
  exit 1
fi
# An older one cannot even read Cargo.lock, and its error does not mention versions.
wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$(dirname "$0")/../Cargo.toml")
rust=$(rustc --version | cut -d' ' -f2)
if [ "$(printf '%s\n' "$wanted" "$rust" | sort -V | head -n 1)" != "$wanted" ]; then
  echo "setup: this Rust is $rust, and $wanted or newer is wanted (https://rustup.rs)" >&2
  exit 1
fi
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  as_root=(sudo -n)
  sudo -n true 2>/dev/null || as_root=(none)
fi
if ! has apt-get >/dev/null || [ "${as_root[*]}" = none ]; then
  echo "setup: please install what this machine's distribution calls: ${missing[*]}" >&2
  echo "setup: (it needs apt-get and root or a sudo that asks nothing to do so itself)" >&2
  exit 1
fi

echo "setup: installing ${missing[*]}"
# A freshly installed package would start its server; this answer forbids it while we install.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" install -m 755 /dev/stdin $policy
  trap '"${as_root[@]}" rm -f $policy' EXIT
fi
log=$(mktemp)
get() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "$@" >>"$log" 2>&1; }
if ! get install -y --no-install-recommends "${missing[@]}"; then
  # Often the package lists are just out of date.
  if ! { get update && get install -y --no-install-recommends "${missing[@]}"; }; then
    echo "setup: apt-get could not install ${missing[*]}; its last words:" >&2
    tail -n 15 "$log" >&2
    exit 1
  fi
fi
rm -f "$log"
