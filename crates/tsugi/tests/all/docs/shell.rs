//! Where the commands of a document run: a home of their own, the built programs in front, loopback alone.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use tsugi_testkit::process;

use crate::world::{TSUGI, World, until};

/// The address that documents name.
const WRITTEN: &str = "127.0.0.1:7600";
/// Variables that examples refer to.
const VARIABLES: [(&str, &str); 7] = [
    ("API_KEY", "example"),
    ("ADMIN_KEY", "example-of-the-admin-key"),
    ("ANN_KEY", "example-of-the-key-of-ann"),
    ("GITHUB_TOKEN", "example"),
    ("REPORTS_SECRET", "example"),
    ("STATE_KEY", "example-of-a-key-that-seals-states"),
    ("TSUGI_VAULT_KEY", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="),
];

/// One document's directory, and the gateway it started.
pub(crate) struct Shell {
    world: World,
    serving: Option<(Child, String)>,
    /// What the last block printed, on either stream.
    said: String,
}

pub(crate) fn has_curl() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join("curl").is_file())
}

impl Shell {
    pub(crate) fn new() -> Self {
        let world = World::new();
        std::fs::create_dir(world.path().join("bin")).unwrap();
        let shell = Shell { world, serving: None, said: String::new() };
        // A gateway takes a free port unless the document says where.
        let tsugi = "case \"$1 $*\" in *--listen*) ;; serve*) shift; set -- serve --listen 127.0.0.1:0 \"$@\" ;; esac";
        shell.program("tsugi", &format!("{tsugi}\nexec {TSUGI} \"$@\"\n"));
        // The program is built already: `cargo run … -- WORDS` runs it.
        let cargo = "while [ \"$1\" != -- ]; do shift || exit 2; done; shift";
        shell.program("cargo", &format!("{cargo}\nexec tsugi \"$@\"\n"));
        // The program itself, since a sandbox lets it be read.
        let pm = shell.world.path().join("bin/mcp-server-pm");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_mcp-server-pm"), pm).unwrap();
        // Otherwise curl calls an error of the server a success.
        shell.world.write(".curlrc", "silent\nshow-error\nfail-with-body\nmax-time = 30\n");
        shell
    }

    fn program(&self, name: &str, script: &str) {
        let path = self.world.write(&format!("bin/{name}"), &format!("#!/bin/sh\n{script}"));
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// The text with the address of our gateway, or with any free port where there is none yet.
    fn addressed(&self, text: &str) -> String {
        let address = self.serving.as_ref().map_or("127.0.0.1:0", |(_, address)| address);
        text.replace(WRITTEN, address)
    }

    #[expect(clippy::disallowed_methods, reason = "documents are tried as people would, in a shell; the mark ends it")]
    fn bash(&self, script: &str, log: &str) -> Child {
        let path = self.world.path();
        let file = std::fs::File::create(path.join(log)).unwrap();
        let programs = format!("{}:{}", path.join("bin").display(), std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new("bash");
        command.args(["-euo", "pipefail", "-c", script]).current_dir(path).env_clear().env("HOME", path);
        command.env("PATH", programs).envs(VARIABLES).envs([self.world.mark.variable()]);
        if let Some((_, address)) = &self.serving {
            command.env("TSUGI_GATEWAY", format!("http://{address}"));
        }
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap()
    }

    fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.world.path().join(name)).unwrap_or_default()
    }

    /// Runs a block to its end; it must succeed.
    pub(crate) fn run(&mut self, place: &str, text: &str) {
        let mut child = self.bash(&self.addressed(text), "said.log");
        let mut ended = None;
        until(
            || {
                ended = child.try_wait().unwrap();
                ended.is_some()
            },
            || format!("{place} does not end:\n{text}\n{}", self.log("said.log")),
        );
        self.said = self.log("said.log");
        let status = ended.unwrap();
        assert!(status.success(), "{place} ended with {status}:\n{text}\n{}", self.said);
    }

    /// Starts a gateway, in place of the one before, and waits until it listens and no server is on its way.
    pub(crate) fn serve(&mut self, place: &str, text: &str) {
        self.stop();
        let child = self.bash(&format!("exec {}", self.addressed(text).trim()), "serve.log");
        let words = "listening on http://";
        until(|| self.log("serve.log").contains(words), || format!("{place}: {text}\n{}", self.log("serve.log")));
        let log = self.log("serve.log");
        let address = log.split(words).nth(1).and_then(|rest| rest.lines().next()).unwrap().to_owned();
        self.serving = Some((child, address));
        self.said = log;
    }

    fn stop(&mut self) {
        let Some((mut child, _)) = self.serving.take() else { return };
        process::send(child.id(), Signal::TERM);
        until(|| child.try_wait().unwrap().is_some(), || format!("the gateway stays:\n{}", self.log("serve.log")));
    }

    /// The block before printed these lines in this order; `…` stands for any number of others.
    pub(crate) fn assert_said(&self, place: &str, expected: &str) {
        let mut said = self.said.lines().map(str::trim_end);
        let address = self.serving.as_ref().map_or(WRITTEN, |(_, address)| address);
        for line in expected.lines().filter(|line| *line != "…").map(|line| line.trim_end().replace(WRITTEN, address))
        {
            assert!(said.any(|one| one == line), "{place}: not printed: {line:?}\n{}", self.said);
        }
    }

    /// Writes a file of the document, and gives its path.
    fn keep(&self, file: Option<&str>, otherwise: &str, text: &str) -> PathBuf {
        let name = file.unwrap_or(otherwise);
        std::fs::create_dir_all(self.world.path().join(name).parent().unwrap()).unwrap();
        self.world.write(name, text)
    }

    /// A configuration: it must be one.
    pub(crate) fn settings(&mut self, place: &str, file: Option<&str>, text: &str) {
        let path = self.keep(file, "example.yaml", text);
        // A file of rules is not a configuration by itself.
        let check = if text.starts_with("rules:") { "policy check" } else { "check --config" };
        self.run(place, &format!("tsugi {check} {}", path.display()));
    }

    /// A JSON document.
    pub(crate) fn json(&self, place: &str, file: Option<&str>, text: &str) {
        let parsed = serde_json::from_str::<serde_json::Value>(text);
        assert!(parsed.is_ok(), "{place}: {parsed:?}");
        self.keep(file, "example.json", text);
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.stop();
        }
    }
}
