#!/usr/bin/env bash
# Runs the official suite's server scenarios through `tsugi serve` in front of our reference server, and
# leaves one summary.json per cell in OUT/WIRE-ERA-FACE-VERSION.
#
#   conformance/gateway.sh OUT [TSUGI]
#
# Straight cells: the dual-era reference behind stdio and HTTP, seen at /mcp and at /servers/ref/mcp.
# Crossed cells: the modern scenarios in front of a legacy-only server, and the other way round. The wire `each` is
# stdio with a process for each session.
# exit code: 0 all passed but what is expected to fail, 1 something else failed, 2 the suite could not be fetched or run
set -uo pipefail
cd "$(dirname "$0")/.."
out="${1:-target/conformance}"
tsugi="${2:-$PWD/target/debug/tsugi}"
mkdir -p "$out"
out="$(cd "$out" && pwd)"
export TSUGI_LOG=error
rm -f "$out/unexpected.txt"
started=()
status=0
# What a legacy wire cannot carry to a modern client; conformance/write-page.py gives the reasons.
beyond_legacy=server-stateless,input-required-result-basic-elicitation
beyond_legacy=$beyond_legacy,input-required-result-ignore-extra-params
# What one process for all callers cannot. It asks for two things at once, one of which the caller has: if that one comes
# first and the other after it was handed on, which a busy machine brings about, the scenario passes.
beyond_one_process=$beyond_legacy,input-required-result-capability-check?

clean_up() {
  local pid
  for pid in "${started[@]+"${started[@]}"}"; do kill "$pid" 2>/dev/null; done
  wait 2>/dev/null
  started=()
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# Waits until FILE has a line that matches, and prints the address in it.
address_in() { # FILE PATTERN
  local tries
  for tries in $(seq 300); do
    sed -n "s#.*$2.*\(http://[0-9.:]*\).*#\1#p" "$1" 2>/dev/null | head -1 | grep . && return 0
    sleep 0.1
  done
  echo "conformance/gateway.sh: nothing listens: $(cat "$1")" >&2
  return 1
}

begin() { # WIRE ERA: starts a reference server and a gateway before it; sets $base
  local entry more=
  [ "$1" = each ] && more=", instances: per-session"
  if [ "$1" != http ]; then
    entry="{name: ref, command: python3, args: [$PWD/conformance/reference_server.py, --stdio, --era, $2]$more}"
  else
    python3 conformance/reference_server.py --http 0 --era "$2" 2>"$files/refserver.log" &
    started+=($!)
    entry="{name: ref, url: '$(address_in "$files/refserver.log" refserver)/mcp'}" || return 1
  fi
  printf 'servers: [%s]\ngateway: {listen: "127.0.0.1:0", naming: bare}\n' "$entry" >"$files/gateway.yaml"
  "$tsugi" serve --config "$files/gateway.yaml" 2>"$files/gateway.log" &
  started+=($!)
  base="$(address_in "$files/gateway.log" listening)" || return 1
  if [ "$1" = each ]; then
    # Calls without a session have a process for each key, and none without one.
    key="$("$tsugi" key add suite --json | sed -n 's/.*"key": *"\([^"]*\)".*/\1/p')"
    python3 conformance/with_key.py "$base" "$key" 2>"$files/with_key.log" &
    started+=($!)
    base="$(address_in "$files/with_key.log" with_key)"
  fi
}

cell() { # WIRE ERA FACE VERSION
  local face=/mcp code dir="$out/$1-$2-$3-$4" expect=()
  [ "$3" = one ] && face=/servers/ref/mcp
  [ "$2" = legacy ] && expect=(--expect-fail "$beyond_legacy")
  [ "$1-$2" = stdio-legacy ] && expect=(--expect-fail "$beyond_one_process")
  bash conformance/suite.sh --url "$base$face" --spec-version "$4" --batch --strict --retries 2 \
    "${expect[@]+"${expect[@]}"}" --quiet --out "$dir" >"$files/run.log" 2>&1
  code=$?
  printf '%-6s %-7s %-17s %s  %s\n' "$1" "$2" "$face" "$4" "$(tail -1 "$files/run.log")"
  if [ "$code" = 2 ]; then exit 2; fi
  if [ "$code" != 0 ]; then
    status=1
    # Kept in a file too: `./test` prints it again at its end, where a reader looks first.
    grep '^UNEXPECTED' "$files/run.log" | sed "s#^#$1 $2 $face $4: #" | tee -a "$out/unexpected.txt"
  fi
}

# Runs every cell of one wire. The wires share nothing, so two of them can run at the same time.
run_wire() { # WIRE
  local wire=$1 era face version versions
  files="$out/$wire"
  # What an earlier run found out about servers and keys says nothing about this one.
  rm -rf "$files"
  mkdir -p "$files"
  export XDG_STATE_HOME="$files/state"
  for era in both legacy modern; do
    # A process for each session differs from one for all where the server hears its client's capabilities once.
    if [ "$wire-$era" = each-both ] || [ "$wire-$era" = each-modern ]; then continue; fi
    case $era in
      both) versions="2025-06-18 2025-11-25 2026-07-28" ;;
      legacy) versions="2026-07-28" ;;
      modern) versions="2025-11-25" ;;
    esac
    if ! begin "$wire" "$era"; then
      echo "$wire $era: the gateway did not start: $(tail -3 "$files/gateway.log")" | tee -a "$out/unexpected.txt"
      exit 1
    fi
    for face in one all; do
      for version in $versions; do cell "$wire" "$era" "$face" "$version"; done
    done
    clean_up
  done
}

# The scenarios of extensions, at `/mcp` with three servers behind it: two with extensions, and the reference server.
run_extensions() {
  files="$out/extensions"
  rm -rf "$files"
  mkdir -p "$files"
  export XDG_STATE_HOME="$files/state"
  local one two code dir="$out/extensions-all" only=tasks-lifecycle,tasks-capability-negotiation
  only=$only,tasks-wire-fields,tasks-request-state-removal,tasks-mrtr-input,tasks-request-headers
  only=$only,tasks-dispatch-and-envelope,tasks-required-task-error,tasks-mrtr-composition
  only=$only,sep-2640-skills-directory,sep-2640-skills-enumeration,sep-2640-skills-manifest
  python3 conformance/extension_server.py --http 0 2>"$files/one.log" &
  started+=($!)
  python3 conformance/extension_server.py --http 0 --skills b 2>"$files/two.log" &
  started+=($!)
  one="$(address_in "$files/one.log" extserver)" && two="$(address_in "$files/two.log" extserver)" || return 1
  printf 'servers:\n  - {name: jobs, url: "%s/mcp"}\n  - {name: team, url: "%s/mcp"}\n' "$one" "$two" >"$files/gateway.yaml"
  printf '  - {name: ref, command: python3, args: [%s, --stdio, --era, modern]}\n' \
    "$PWD/conformance/reference_server.py" >>"$files/gateway.yaml"
  printf 'gateway: {listen: "127.0.0.1:0", naming: bare}\n' >>"$files/gateway.yaml"
  "$tsugi" serve --config "$files/gateway.yaml" 2>"$files/gateway.log" &
  started+=($!)
  base="$(address_in "$files/gateway.log" listening)" || return 1
  bash conformance/suite.sh --url "$base/mcp" --spec-version 2026-07-28 --extensions --only "$only" --batch --strict \
    --retries 2 --quiet --out "$dir" >"$files/run.log" 2>&1
  code=$?
  printf '%-32s %s  %s\n' "extensions, three servers" 2026-07-28 "$(tail -1 "$files/run.log")"
  if [ "$code" = 2 ]; then exit 2; fi
  if [ "$code" != 0 ]; then
    status=1
    grep '^UNEXPECTED' "$files/run.log" | sed "s#^#extensions: #" | tee -a "$out/unexpected.txt"
  fi
  clean_up
}

# Most of the time is waiting, so the wires run in two groups beside each other; stdio reports first.
(
  trap clean_up EXIT
  run_wire http
  run_wire each
  exit $status
) >"$out/http-and-each.log" 2>&1 &
other=$!
(
  trap clean_up EXIT
  run_wire stdio
  run_extensions || status=1
  exit $status
)
status=$?
wait "$other"
code=$?
cat "$out/http-and-each.log"
# "Could not run" counts only if nothing failed.
if [ "$code" = 1 ] || [ "$status" = 1 ]; then exit 1; fi
[ "$status" != 0 ] || status=$code
exit $status
