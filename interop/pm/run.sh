#!/usr/bin/env bash
# Lets other people's MCP clients tell a whole story with `mcp-server-pm`: start a session, claim, add context, hand
# off, accept as another agent, review, end; in both eras, each with a database of its own.
#
#   interop/pm/run.sh [FOLDER]      FOLDER has the programs tsugi and mcp-server-pm, target/debug if left out
#
# The variables that scripts/test-env prints say where the clients are. Exits with 1 when a story fails.
set -uo pipefail
cd "$(dirname "$0")/../.."
programs="$(cd "${1:-target/debug}" && pwd)" || exit 1
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
status=0

story() { # NAME COMMAND…: the command gets the server's program, the database and the era
  local name="$1" era="${*: -1}" db
  shift
  db="$work/${name//[^a-zA-Z0-9]/-}.db"
  "$programs/tsugi" pm init --db "$db" --project WEB "Web shop" --agent agt_ann:worker --agent agt_bob:worker \
    --agent agt_manager:manager >"$work/log" 2>&1 || { cat "$work/log"; status=1; return; }
  if timeout 120 "${@:1:$#-1}" "$programs/mcp-server-pm" "$db" "$era" >"$work/log" 2>&1 && grep -q '^told$' "$work/log"; then
    printf '%-32s told\n' "$name"
  else
    printf '%-32s FAILED\n' "$name"
    tail -40 "$work/log"
    status=1
  fi
}

if [ -n "${TSUGI_TEST_PY1:-}" ]; then
  story "Python SDK 1.x" "$TSUGI_TEST_PY1/bin/python" interop/pm/story.py first
else
  echo "skipped: Python SDK 1.x: TSUGI_TEST_PY1 is not set"
fi
if [ -n "${TSUGI_TEST_PY:-}" ]; then
  for era in legacy modern; do story "Python SDK 2.x, $era" "$TSUGI_TEST_PY/bin/python" interop/pm/story.py "$era"; done
else
  echo "skipped: Python SDK 2.x: TSUGI_TEST_PY is not set"
fi
if [ -n "${TSUGI_TEST_NODE:-}" ]; then
  # Node looks for packages beside the script.
  mkdir -p "$TSUGI_TEST_NODE/pm" && cp interop/pm/story.mjs "$TSUGI_TEST_NODE/pm/"
  story "TypeScript SDK 1.x" node "$TSUGI_TEST_NODE/pm/story.mjs" first
  for era in legacy modern; do story "TypeScript SDK 2.x, $era" node "$TSUGI_TEST_NODE/pm/story.mjs" "$era"; done
else
  echo "skipped: TypeScript SDKs: TSUGI_TEST_NODE is not set"
fi
if [ -x target/debug/examples/rmcp_client ]; then
  for era in legacy modern; do story "rmcp, $era" target/debug/examples/rmcp_client pm "$era"; done
else
  echo "skipped: rmcp: the example rmcp_client is not built"
fi
exit $status
