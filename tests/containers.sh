# An engine, the images of docker/ and a compose project of our own: sourced by docker.sh and
# docker-fleet.sh, with bash's `set -eu`.
#
# Passes and says so where there is no engine. $files are the compose files; $load may be a container
# that is to be removed at the end; `logs` prints what helps after `fail`. Base images that cannot be
# pulled are made here (docker/base-images.sh), and lose their tags again at the end.
me=$(basename "$0" .sh)
if ! docker version >/dev/null 2>&1; then
  echo "$me: no engine answers here, so the images are not built or tested"
  exit 0
fi
if ! docker compose version >/dev/null 2>&1 && ! command -v docker-compose >/dev/null; then
  echo "$me: there is an engine but no compose, so the images are not built or tested"
  exit 0
fi

scratch=$(mktemp -d)
project= load=
compose() {
  local names=("${files[@]/#/--file=}")
  if docker compose version >/dev/null 2>&1; then
    docker compose -p "$project" "${names[@]}" "$@"
  else
    docker-compose -p "$project" "${names[@]}" "$@"
  fi
}
clean() {
  [ -z "$load" ] || docker rm -f -v "$load" >/dev/null 2>&1 || :
  [ -z "$project" ] || compose down -v -t 1 >/dev/null 2>&1 || :
  docker/base-images.sh remove || :
  rm -rf "$scratch"
}
trap clean EXIT

# The host's network: a build may have no other way out.
image() {
  docker build --force-rm --network=host -f "docker/$1" -t "$2:test" . >"$scratch/log" 2>&1 ||
    { tail -n 40 "$scratch/log" >&2; exit 1; }
}
# Of the untagged images that earlier builds left, the newest build stage is kept: it has the crates.
left() { docker images -q --no-trunc --filter dangling=true --filter "label=mod_nap=$1"; }
remove_left() { { left build | tail -n +2; left image; } | xargs -r docker rmi >/dev/null 2>&1 || :; }

# Starts the project.
up() {
  project=nap-test-$$
  export NAP_IMAGE=mod_nap:test NAP_SHOP_IMAGE=mod_nap_shop:test NAP_PORT=0
  compose up -d --no-build >"$scratch/up" 2>&1 || { cat "$scratch/up"; exit 1; } >&2
  network=${project}_default
}
client() { docker run --rm --no-healthcheck --network "$network" --entrypoint "$1" mod_nap:test "${@:2}"; }
# The text of a page requested from a container of this network: page HOST PATH [HEADERS]
page() {
  client bash -c 'exec 3<>"/dev/tcp/$0/80"; printf "GET $1 HTTP/1.0\r\n$2\r\n" >&3; cat <&3' "$1" "$2" "${3:-}"
}
fail() {
  echo "$me: $*"
  logs
  exit 1
} >&2
until_healthy() {
  local health
  for _ in $(seq 600); do
    health=$(docker inspect -f '{{.State.Health.Status}}' "$1")
    [ "$health" = healthy ] && return
    sleep 0.1
  done
  fail "the container is not healthy but $health"
}
# Lines of a container's error log that are worse than a notice, but for these.
unexpected() {
  docker exec "$1" cat /var/log/apache2/error.log | grep -E ':(warn|error|crit|alert|emerg)\]|exit signal' |
    grep -vE "$2"
}
