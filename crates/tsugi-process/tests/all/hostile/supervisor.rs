//! Supervising processes that the test kills: one that uses jobs, and a careless one that does not.

use std::time::Duration;

use tsugi_process::{Command, Grace, Job, JobOptions};

use super::FLAG;

/// Runs a role as a job and lives until it is killed: arguments are the program, the mark and the role.
pub(crate) fn guarded(arguments: &[String]) {
    let [program, mark, role] = arguments else { panic!("program, mark and role are needed") };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let command = Command::new(program).args([FLAG, role]).env(crate::world::MARK, mark);
        let grace =
            Grace { stdin: Duration::from_millis(200), terminate: Duration::from_millis(300), ..Grace::default() };
        let (_job, mut pipes) = Job::spawn(command, JobOptions { grace, ..Default::default() }).await.unwrap();
        let mut output = tokio::io::stdout();
        tokio::io::copy(&mut pipes.stdout, &mut output).await.unwrap();
        std::future::pending::<()>().await;
    });
}

/// Does what most programs do.
#[allow(clippy::disallowed_methods, reason = "this is the careless one")]
pub(crate) fn careless(arguments: &[String]) {
    let [program, mark, role] = arguments else { panic!("program, mark and role are needed") };
    let mut command = std::process::Command::new(program);
    let child = command.args([FLAG, role]).env(crate::world::MARK, mark).stdin(std::process::Stdio::piped());
    let mut child = child.spawn().unwrap();
    child.wait().unwrap();
}
