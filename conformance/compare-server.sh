#!/usr/bin/env bash
# Runs the official suite's server scenarios against any server that listens, once directly and once through
# `tsugi serve`, and says which scenarios the gateway loses. It is how the SDKs' own servers were compared;
# they are neither on npm nor on PyPI, so they are started by hand from the SDKs' repositories.
#
#   conformance/compare-server.sh OUT NAME URL VERSION…
#   conformance/compare-server.sh target/beside py2 http://127.0.0.1:4102/mcp 2025-11-25 2026-07-28
#
# TSUGI names another binary than target/debug/tsugi.
# exit code: 0 nothing is lost, 1 something is, 2 the suite or the gateway could not be run
set -uo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 4 ] || { sed -n '2,10p' "$0" | sed 's/^# \{0,1\}//'; exit 2; }
out="$1" name="$2" url="$3"
shift 3
mkdir -p "$out"
out="$(cd "$out" && pwd)"
gateway=""
status=0
trap '[ -z "$gateway" ] || kill "$gateway" 2>/dev/null; wait 2>/dev/null' EXIT
trap 'exit 130' INT TERM

suite() { # URL VERSION FOLDER…
  bash conformance/suite.sh --url "$1" --spec-version "$2" --batch --retries 2 --quiet --out "$3" "${@:4}" \
    >"$3.log" 2>&1
  local code=$?
  [ "$code" != 2 ] || { cat "$3.log"; exit 2; }
  tail -1 "$3.log"
}

printf 'servers: [{name: %s, url: "%s"}]\ngateway: {listen: "127.0.0.1:0"}\n' "$name" "$url" >"$out/$name.yaml"
rm -rf "$out/state"
XDG_STATE_HOME="$out/state" "${TSUGI:-target/debug/tsugi}" serve --config "$out/$name.yaml" 2>"$out/$name.log" &
gateway=$!
for _ in $(seq 300); do
  grep -q "^$name: connected" "$out/$name.log" && break
  sleep 0.1
done
base="$(sed -n 's#^listening on \(http://[0-9.:]*\).*#\1#p' "$out/$name.log")"
[ -n "$base" ] || { cat "$out/$name.log"; exit 2; }

for version in "$@"; do
  printf '%-6s %s directly  %s\n' "$name" "$version" "$(suite "$url" "$version" "$out/$name-$version-direct")"
  printf '%-6s %s through   %s\n' "$name" "$version" "$(suite "$base/servers/$name/mcp" "$version" "$out/$name-$version-through")"
  python3 - "$out/$name-$version-direct/summary.json" "$out/$name-$version-through/summary.json" <<'PY' || status=1
import json, sys
direct, through = ({s["scenario"]: s["verdict"] for s in json.load(open(path))["scenarios"]} for path in sys.argv[1:])
changed = {name: (direct[name], through.get(name)) for name in direct if direct[name] != through.get(name)}
for name, (one, two) in sorted(changed.items()):
    print("  %s: %s directly, %s through" % (name, one, two))
sys.exit(any(one != "fail" and two == "fail" for one, two in changed.values()))
PY
done
exit $status
