//! The stderr of a child: always drained, bounded, masked, and followed live.

use tokio::io::AsyncWriteExt;
use tsugi_process::{ChildExit, SecretMask, SupervisedJob};

use crate::world::{World, quick, wait_ready};

#[tokio::test]
async fn a_flood_that_is_not_text_is_drained_and_only_its_end_is_kept() {
    let world = World::new();
    let (job, _pipes) = SupervisedJob::spawn(world.command("flood").arg("1024"), quick()).await.unwrap();
    let report = job.exited().await;
    assert_eq!(report.status, ChildExit::Code(3));
    assert_eq!(report.stderr_tail.last().unwrap(), "that was all");
    assert_eq!(job.stderr().total_bytes(), 1024 * 1024 * 1024 + 13);
    let kept: usize = job.stderr().tail(usize::MAX).iter().map(String::len).sum();
    assert!(kept <= 3 * 64 * 1024);
}

#[tokio::test]
async fn secrets_are_masked_in_the_tail_the_report_and_for_followers() {
    let world = World::new();
    let mut options = quick();
    options.redact = SecretMask::new(["given-secret".to_owned()]);
    let lines = ["I know env-secret", "and given-secret", "and \x1b[31mcolours"];
    let command = world.command("speak").args(lines).env("SOME_TOKEN", "env-secret");
    let (job, mut pipes) = SupervisedJob::spawn(command, options).await.unwrap();
    wait_ready(&mut pipes.stdout, 1).await;
    let mut follower = job.stderr().subscribe();
    pipes.stdin.write_all(b"x").await.unwrap();
    let expected = ["I know [redacted]", "and [redacted]", "and \\x1b[31mcolours"];
    for line in expected {
        assert_eq!(&*follower.recv().await.unwrap(), line);
    }
    drop(pipes);
    assert_eq!(job.stop().await.stderr_tail, expected);
    assert_eq!(job.stderr().tail(1), expected[2..]);
}
