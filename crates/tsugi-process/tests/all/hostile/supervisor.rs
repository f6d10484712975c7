//! Supervising processes that the test kills: one that uses jobs, and a careless one that does not.

use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tsugi_process::{JobCommand, JobOptions, StopGrace, SupervisedJob};

use super::FLAG;

/// Runs a role as a job and lives until it is killed: arguments are the program, the mark and the role.
pub(crate) fn guarded(arguments: &[String]) {
    let [program, mark, role] = arguments else { panic!("program, mark and role are needed") };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let command = JobCommand::new(program).args([FLAG, role]).env(crate::world::MARK, mark);
        let grace = StopGrace {
            stdin: Duration::from_millis(200),
            terminate: Duration::from_millis(300),
            ..StopGrace::default()
        };
        let (_job, mut pipes) =
            SupervisedJob::spawn(command, JobOptions { grace, ..Default::default() }).await.unwrap();
        let mut output = tokio::io::stdout();
        tokio::io::copy(&mut pipes.stdout, &mut output).await.unwrap();
        std::future::pending::<()>().await;
    });
}

/// Starts a job where the system gives no more files, or no more processes, and tells the error.
pub(crate) fn starved(arguments: &[String]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut held = Vec::new();
    match arguments[0].as_str() {
        "files" => {
            lower(Resource::Nofile, 64);
            held.extend(std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()));
        }
        _ => {
            // The limit does not bind root.
            // SAFETY: this process has one thread.
            unsafe { libc::setuid(65534) };
            lower(Resource::Nproc, 0);
        }
    }
    let error =
        runtime.block_on(SupervisedJob::spawn(JobCommand::new("true"), JobOptions::default())).map(|_| ()).unwrap_err();
    drop(held);
    println!("retryable: {} {error}", error.is_retryable());
}

fn lower(resource: Resource, to: u64) {
    let limit = Rlimit { current: Some(to), ..getrlimit(resource) };
    setrlimit(resource, limit).unwrap();
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
