//! This test binary in the part of another program: one that is killed, or one that is measured alone.

use std::future::Future;
use std::process::{Command, Output};

/// The variable that says which part to play.
const ROLE: &str = "TSUGI_TEST_ROLE";
/// What the part is told.
const SUBJECT: &str = "TSUGI_TEST_SUBJECT";

/// The part that this process was started to play.
pub(crate) fn given() -> Option<(String, String)> {
    Some((std::env::var(ROLE).ok()?, std::env::var(SUBJECT).unwrap_or_default()))
}

/// This program again, running one test in a part.
#[allow(clippy::disallowed_methods, reason = "a supervisor that the test kills cannot be a job of the test")]
pub(crate) fn command(test: &str, role: &str, subject: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env(ROLE, role).env(SUBJECT, subject);
    command
}

/// The name under which the test harness knows a test function, from its type's name.
pub(crate) fn name_of<F>(_: F) -> &'static str {
    let name = std::any::type_name::<F>();
    name.split_once("::").map_or(name, |(_, rest)| rest)
}

/// Runs the body in a process of its own, so that its memory can be measured: the first call starts the test
/// again, which then finds that it is alone.
pub(crate) fn alone<F: Future<Output = ()>>(test: &str, body: impl FnOnce() -> F) {
    if given().is_none() {
        let output = command(test, "alone", "").output().unwrap();
        assert!(output.status.success(), "{}", shown(&output));
        return;
    }
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(body());
}

fn shown(output: &Output) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
