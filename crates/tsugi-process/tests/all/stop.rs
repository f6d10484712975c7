//! Stopping: polite first, certain in the end, and reported to every waiter.

use std::time::{Duration, Instant};

use tsugi_process::{ChildExit, ExitCause, JobOptions, JobPhase, SupervisedJob};

use crate::world::{LIMIT, World, quick, wait_ready};

#[tokio::test]
async fn a_good_child_ends_with_its_input_and_is_not_signalled() {
    let world = World::new();
    let (job, mut pipes) = SupervisedJob::spawn(world.command("echo"), JobOptions::default()).await.unwrap();
    wait_ready(&mut pipes.stdout, 1).await;
    drop(pipes.stdin);
    let report = job.stop().await;
    assert_eq!((report.status, report.swept), (ChildExit::Code(0), 0));
    assert_eq!(job.phase(), JobPhase::Gone);
    assert!(job.tree().is_empty());
}

#[tokio::test]
async fn a_child_whose_input_stays_open_hears_sigterm() {
    let world = World::new();
    let (job, mut pipes) = SupervisedJob::spawn(world.command("echo"), quick()).await.unwrap();
    wait_ready(&mut pipes.stdout, 1).await;
    assert_eq!(job.stop().await.status, ChildExit::Signal(libc::SIGTERM));
}

/// With the default times, which are what the design promises.
#[tokio::test]
async fn a_child_that_ignores_everything_or_has_stopped_itself_is_gone_within_six_seconds() {
    for role in ["stubborn", "frozen"] {
        let world = World::new();
        let (job, mut pipes) = SupervisedJob::spawn(world.command(role), JobOptions::default()).await.unwrap();
        wait_ready(&mut pipes.stdout, 1).await;
        drop(pipes.stdin);
        let start = Instant::now();
        let report = job.stop().await;
        assert!(start.elapsed() < LIMIT, "{role} took {:?}", start.elapsed());
        assert_eq!((report.status, report.cause), (ChildExit::Signal(libc::SIGKILL), ExitCause::Stopped));
        assert!(world.processes().iter().all(|(_, line)| line.starts_with("tsugi-guardian")));
    }
}

#[tokio::test]
async fn everyone_who_waits_gets_the_same_report() {
    let world = World::new();
    let (job, mut pipes) = SupervisedJob::spawn(world.command("stubborn"), quick()).await.unwrap();
    wait_ready(&mut pipes.stdout, 1).await;
    let waiters: Vec<_> = (0..20)
        .map(|index| {
            let job = job.clone();
            tokio::spawn(async move { if index % 2 == 0 { job.gone().await } else { job.stop().await } })
        })
        .collect();
    for waiter in waiters {
        assert_eq!(waiter.await.unwrap().status, ChildExit::Signal(libc::SIGKILL));
    }
    assert_eq!(job.try_exit_report().unwrap().cause, ExitCause::Stopped);
}

#[tokio::test]
async fn whoever_holds_stdin_hears_that_the_job_is_to_stop() {
    let world = World::new();
    let (job, mut pipes) = SupervisedJob::spawn(world.command("echo"), JobOptions::default()).await.unwrap();
    wait_ready(&mut pipes.stdout, 1).await;
    let holder = job.clone();
    let closing = tokio::spawn(async move {
        holder.stopping().await;
        drop(pipes.stdin);
    });
    assert_eq!(job.stop().await.status, ChildExit::Code(0));
    closing.await.unwrap();
}

#[tokio::test]
async fn a_kill_shortens_a_stop_that_is_under_way() {
    let world = World::new();
    let mut options = quick();
    options.grace.stdin = Duration::from_secs(600);
    let (job, mut pipes) = SupervisedJob::spawn(world.command("stubborn"), options).await.unwrap();
    wait_ready(&mut pipes.stdout, 1).await;
    let stopping = tokio::spawn({
        let job = job.clone();
        async move { job.stop().await }
    });
    job.stopping().await;
    job.kill();
    assert_eq!(stopping.await.unwrap().status, ChildExit::Signal(libc::SIGKILL));
}
