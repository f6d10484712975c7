//! Which Node or Python this machine has, for a server that wants another one.

use std::path::Path;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tsugi_process::{JobCommand, JobOptions, SupervisedJob};

use super::cause::FailureCause;

/// An interpreter that says nothing within this time is not waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// More than any version has.
const LONGEST: u64 = 200;

/// What this machine has of what the server wants another version of, such as `node v20.1.0`. The interpreter beside
/// the server's own program counts before the one in `PATH`.
pub(crate) async fn installed(cause: &FailureCause, program: Option<&Path>) -> Option<String> {
    let name = match cause {
        FailureCause::WrongNode { .. } => "node",
        FailureCause::WrongPython { .. } => "python3",
        _ => return None,
    };
    let beside = program.map(|program| program.with_file_name(name)).filter(|path| path.is_file());
    let interpreter = beside.map_or_else(|| name.to_owned(), |path| path.display().to_string());
    let said = tokio::time::timeout(PATIENCE, ask(&interpreter)).await.ok()??;
    Some(format!("{name} {}", said.trim_start_matches("Python ")))
}

async fn ask(interpreter: &str) -> Option<String> {
    let (job, pipes) =
        SupervisedJob::spawn(JobCommand::new(interpreter).arg("--version"), JobOptions::default()).await.ok()?;
    let mut said = String::new();
    pipes.stdout.take(LONGEST).read_to_string(&mut said).await.ok()?;
    job.stop().await;
    said.lines().next().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned)
}
