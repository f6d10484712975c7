#!/usr/bin/env node
// Starts the tsugi program of this platform's package. That package is an optional dependency, so npm brings the right
// one and no install script runs.
"use strict";

const { spawn } = require("node:child_process");
const path = require("node:path");

const platform = `tsugi-${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${platform}/bin/tsugi`);
} catch {
  console.error(`tsugi: the package ${platform} is not installed`);
  console.error(
    "hint: there is a package for linux-x64 (glibc); if that is yours, install without --omit=optional",
  );
  process.exit(1);
}

// tsugi is the project-management server when it is called mcp-server-pm.
const name = path.basename(process.argv[1], ".js");
const child = spawn(program, process.argv.slice(2), { stdio: "inherit", argv0: name });

// A terminal sends Ctrl-C to both of us, and a second one would cut the child's shutdown short.
process.on("SIGINT", () => process.stdin.isTTY || child.kill("SIGINT"));
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));

child.on("error", (error) => {
  console.error(`tsugi: cannot start ${program}: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code);
  // Ends as the child ended, so that shells and supervisors see the same.
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
