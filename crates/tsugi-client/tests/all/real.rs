//! Servers that other people wrote, installed by `scripts/test-env`: connected, listed, called, asked and stopped,
//! free and inside the default sandbox, until nothing of them is left.

mod everything;
mod other;
mod port;

use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;
use tsugi_client::{ConnectTarget, Manager, Server};
use tsugi_process::{JobCommand, SandboxPolicy};
use tsugi_protocol::answer::{Answer, Call, Outcome};
use tsugi_protocol::json::JsonObject;
use tsugi_protocol::mcp::{Era, Method};
use tsugi_testkit::process::Mark;
use tsugi_testkit::wait;

use crate::outcome::{end_of, text};
use crate::world::{LIMIT, call, config, options, with_client};

/// The place that a variable of `scripts/test-env` names; without it the test says why it is skipped.
fn place(variable: &str) -> Option<PathBuf> {
    let place = std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    if place.is_none() {
        println!("skipped: {variable} is not set (scripts/test-env installs what it names)");
    }
    place
}

/// A server from npm.
fn node(package: &str) -> Option<JobCommand> {
    let script = format!("node_modules/@modelcontextprotocol/{package}/dist/index.js");
    Some(JobCommand::new("node").arg(place("TSUGI_TEST_NODE")?.join(script)))
}

/// A server from PyPI, in the environment that the variable names.
fn python(variable: &str, program: &str) -> Option<JobCommand> {
    Some(JobCommand::new(place(variable)?.join("bin").join(program)))
}

/// A real server in a manager, with a folder of its own.
struct Real {
    name: String,
    manager: Manager,
    server: Server,
    mark: Mark,
    folder: TempDir,
}

impl Real {
    /// Starts a program once free and once inside the default sandbox, and does the same with both.
    async fn each(command: JobCommand, extra: impl Fn(&Path) -> Extra, check: impl AsyncFn(&Real)) {
        for policy in [SandboxPolicy::Off, SandboxPolicy::Default] {
            let folder = tempfile::tempdir().unwrap();
            let command = extra(folder.path()).over(command.clone().sandbox(policy.clone()).cwd(folder.path()));
            let mark = Mark::new();
            let (variable, value) = mark.variable();
            let target = ConnectTarget::stdio(command.env(variable, value));
            let real = Real::connected(format!("{policy:?}"), target, mark, folder).await;
            assert!(real.mark.count() > 0, "the mark is not seen, so nothing would be found to be left");
            check(&real).await;
            real.finish().await;
        }
    }

    /// Connected and listed.
    async fn connected(name: String, target: ConnectTarget, mark: Mark, folder: TempDir) -> Self {
        let manager = Manager::new(options());
        let server = manager.register(config("real", target)).unwrap();
        let ready = server.ready(LIMIT).await;
        ready.unwrap_or_else(|fault| panic!("{name}: {fault}: {:?}", server.stderr(50)));
        Self { name, manager, server, mark, folder }
    }

    fn era(&self) -> Era {
        self.server.status().version.unwrap().era()
    }

    /// How many tools it has.
    fn tools(&self) -> usize {
        self.server.catalog().unwrap().tools.items.len()
    }

    /// Makes a call to its end.
    async fn outcome(&self, call: Call) -> Outcome {
        end_of(self.server.answer(call), LIMIT).await.unwrap_or_else(|| panic!("{}: the call hangs", self.name))
    }

    /// Calls a tool and gives its first text.
    async fn say(&self, tool: &str, arguments: Value) -> String {
        text(&self.outcome(call(tool, arguments)).await)
    }

    /// Asks for anything else.
    async fn ask(&self, method: Method, params: Value) -> Value {
        crate::outcome::value(&self.outcome(with_client(Call::new(method, JsonObject::from(params)))).await)
    }

    /// Nothing is in flight, and after stopping no process is left.
    async fn finish(self) {
        let is_quiet = || self.server.status().in_flight == 0 && self.server.status().parked == 0;
        assert!(wait::until(is_quiet).await, "{}: {:?}", self.name, self.server.status());
        tokio::time::timeout(LIMIT, self.manager.stop()).await.expect("stopping does not hang");
        assert_eq!(self.mark.processes(), [], "{}: something is left", self.name);
    }
}

/// Arguments and variables that depend on the folder.
#[derive(Default)]
struct Extra {
    arguments: Vec<String>,
    variables: Vec<(&'static str, String)>,
}

impl Extra {
    fn over(self, command: JobCommand) -> JobCommand {
        let command = command.args(self.arguments);
        self.variables.into_iter().fold(command, |command, (name, value)| command.env(name, value))
    }
}
