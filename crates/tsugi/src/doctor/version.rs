//! The installed Node or Python, for a server that requires another version.

use std::path::Path;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tsugi_client::diagnosis::FailureCause;
use tsugi_process::{JobCommand, JobOptions, SupervisedJob};

/// How long an interpreter may take to print its version.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longer than any version.
const LONGEST: u64 = 200;

/// The installed version, such as `node v20.1.0`. An interpreter beside the server's program takes precedence over
/// `PATH`.
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
