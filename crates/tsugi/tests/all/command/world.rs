//! A place to run the command in: a folder of its own, a home of its own, no variable of ours.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use tsugi_testkit::golden::Golden;
use tsugi_testkit::scripted::Scripted;

/// Where the command runs.
pub(super) struct World {
    folder: TempDir,
}

/// How a run ended.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl World {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("home")).unwrap();
        std::fs::create_dir(folder.path().join("project")).unwrap();
        World { folder }
    }

    /// With a configuration of these servers, found in the directory.
    pub(super) fn with_servers(servers: Value) -> Self {
        let world = World::new();
        world.write("tsugi.json", &json!({"servers": servers}).to_string());
        world
    }

    /// The current directory of the command.
    pub(super) fn work(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    /// Its home.
    pub(super) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub(super) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.work().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The command, not started yet.
    #[allow(clippy::disallowed_methods, reason = "the command under test is no server of ours")]
    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tsugi"));
        command.args(args).current_dir(self.work()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", self.home());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(super) fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args).spawn().unwrap())
    }

    pub(super) fn run_with(&self, variables: &[(&str, &str)], args: &[&str]) -> Ran {
        Ran::of(self.command(args).envs(variables.iter().copied()).spawn().unwrap())
    }

    /// With this on stdin.
    pub(super) fn run_reading(&self, input: &str, args: &[&str]) -> Ran {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        // A command that does not read its input is no failure of the test.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        Ran::of(child)
    }

    /// What was said, with the folder's own name taken out.
    pub(super) fn plain(&self, text: &str) -> String {
        let folder = std::fs::canonicalize(self.folder.path()).unwrap();
        text.replace(self.folder.path().to_str().unwrap(), "FOLDER").replace(folder.to_str().unwrap(), "FOLDER")
    }
}

impl Ran {
    pub(super) fn of(child: Child) -> Self {
        let output = child.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Everything that matters, for a golden file.
    pub(super) fn shown(&self) -> String {
        let code = self.code.map_or("a signal".to_owned(), |code| code.to_string());
        format!("exit: {code}\n--- stdout\n{}--- stderr\n{}", self.stdout, self.stderr)
    }

    /// The data, which must be JSON.
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    pub(super) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}", self.shown());
        self
    }
}

/// A scripted server as an entry of the configuration.
pub(super) fn entry(name: &str, scripted: &Scripted) -> Value {
    let env: serde_json::Map<String, Value> =
        scripted.env().into_iter().map(|(name, value)| (name, value.into())).collect();
    json!({"name": name, "command": scripted.program(), "args": escaped(&scripted.args()), "env": env})
}

/// A dollar sign in the configuration begins a reference.
fn escaped(args: &[String]) -> Vec<String> {
    args.iter().map(|arg| arg.replace('$', "$$")).collect()
}

/// A scripted server as the value of `--command`.
pub(super) fn line(scripted: &Scripted) -> String {
    let quoted = |word: &str| format!("'{}'", word.replace('\'', "'\\''"));
    let program = scripted.program().display().to_string();
    std::iter::once(program).chain(scripted.args()).map(|word| quoted(&word)).collect::<Vec<_>>().join(" ")
}

/// The golden files of the command's words.
pub(super) fn golden() -> Golden {
    Golden::in_folder(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/command"))
}
