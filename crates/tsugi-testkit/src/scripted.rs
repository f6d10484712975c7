//! A server that follows a script, as a child process or in this process.
//!
//! It is written apart from tsugi's own protocol code on purpose: threads, blocking reads and
//! `serde_json::Value`, so that a defect there cannot hide itself here.
//!
//! Its tools: `echo` (its arguments), `add` (`a`, `b`), `sleep` (`ms`, can be cancelled), `progress` (`steps`,
//! `every_ms`), `count` (a side effect that is counted in the state folder), `fail` (`isError`), `error` (a
//! JSON-RPC error), `crash` (exits), `ask`, `ask_url`, `ask_twice`, `sample`, `roots` (input in the way of the
//! era), `big` (`bytes`), `wrong` and `unstructured` (break their output schema), `log` (`level`, `text`),
//! `change` (`what`: `tools`, `prompts`, `resources` or a resource's address) and `about` (pid, launch, argument
//! vector, a variable of the environment).

mod act;
mod answer;
mod child;
mod http;
mod message;
mod output;
mod program;
mod server;
mod stdio;
mod tools;
mod turn;

use std::path::{Path, PathBuf};

use crate::journal::Journal;
use crate::process::Mark;
use crate::script::Script;

pub use child::{Role, play, run_launcher};
pub(crate) use http::HttpRequest;
pub use http::{HttpServer, run_http_process};
pub use program::server_program;
pub use stdio::{run_process, serve};

/// A scripted server that the code under test will start: what to run, and what became of it.
#[derive(Debug)]
pub struct Scripted {
    script: Script,
    folder: tempfile::TempDir,
    mark: Mark,
}

impl Scripted {
    /// With a state folder and a mark of its own.
    pub fn new(script: Script) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        Self { script, folder, mark: Mark::new() }
    }

    /// The program to run.
    pub fn program(&self) -> PathBuf {
        server_program()
    }

    /// Its arguments.
    pub fn args(&self) -> Vec<String> {
        let folder = self.folder.path().display().to_string();
        vec!["--state".into(), folder, "--script".into(), self.script.to_json()]
    }

    /// The arguments under which another process stands between, as `npx` and `uvx` do.
    pub fn launcher_args(&self) -> Vec<String> {
        let mut args = self.args();
        args.insert(0, "--launcher".into());
        args
    }

    /// The variables that its environment must have, so that its descendants can be counted.
    pub fn env(&self) -> Vec<(String, String)> {
        vec![self.mark.variable()]
    }

    /// What it saw and did.
    pub fn journal(&self) -> Journal {
        Journal::at(self.folder.path())
    }

    /// The mark that it and all its descendants carry.
    pub fn mark(&self) -> &Mark {
        &self.mark
    }

    /// Where its state is.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// True for tools that must not hold up other requests.
fn may_take_time(tool: &str) -> bool {
    matches!(tool, "sleep" | "progress" | "ask" | "ask_url" | "ask_twice" | "ask_both" | "sample" | "roots" | "big")
}
