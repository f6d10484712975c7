//! Runs a command under a sandbox policy and says what was enforced:
//! `confined POLICY PROGRAM [ARGUMENT…]`, where the policy is `off`, `default` or JSON rules.
//!
//! stdin and stdout are passed through, so that a policy can be tried on a real server before it is configured.
#![allow(clippy::print_stderr, reason = "this is a command")]

use tsugi_process::{JobCommand, JobOptions, SandboxPolicy, SupervisedJob};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    tsugi_process::guardian_main();
    run()
}

#[tokio::main(flavor = "current_thread")]
async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let policy = parse(&arguments.next().ok_or("a policy is needed")?)?;
    let program = arguments.next().ok_or("a program is needed")?;
    let command = JobCommand::new(program).args(arguments).sandbox(policy);
    let (job, mut pipes) = SupervisedJob::spawn(command, JobOptions::default()).await?;
    eprintln!("{}\n", job.sandbox_report());
    let input = tokio::spawn(async move { tokio::io::copy(&mut tokio::io::stdin(), &mut pipes.stdin).await });
    tokio::io::copy(&mut pipes.stdout, &mut tokio::io::stdout()).await?;
    input.abort();
    let report = job.stop().await;
    eprintln!("{}\n{report}", report.stderr_tail.join("\n"));
    // The runtime would otherwise wait for a read of our own stdin that may never end.
    std::process::exit(i32::from(!report.status.is_success()));
}

fn parse(policy: &str) -> Result<SandboxPolicy, serde_json::Error> {
    match policy {
        "off" => Ok(SandboxPolicy::Off),
        "default" => Ok(SandboxPolicy::Default),
        rules => serde_json::from_str(rules),
    }
}
