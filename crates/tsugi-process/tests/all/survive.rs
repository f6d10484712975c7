//! No descendant survives: every way of ending × every kind of child, judged from the process table.

use std::time::Duration;

use rustix::process::Signal;
use tokio::{io::AsyncWriteExt, net::unix::pipe::Receiver};
use tsugi_process::{ChildExit, ExitCause, JobPhase, SupervisedJob, SupervisionTier};

use crate::world::{World, quick, send_signal, wait_ready};

/// Each role with how many of its processes say that they stand.
const ROLES: &[(&str, usize)] =
    &[("echo", 1), ("stubborn", 1), ("frozen", 1), ("family", 1), ("daemon", 1), ("launcher", 2)];

/// The ways of ending a job while its supervisor lives.
#[derive(Debug, Clone, Copy)]
enum End {
    Stop,
    Kill,
    Drop,
    GuardianKilled,
}

async fn check(role: &str, said: usize, end: End) {
    let world = World::new();
    let (job, mut pipes) = SupervisedJob::spawn(world.command(role), quick()).await.unwrap();
    wait_ready(&mut pipes.stdout, said).await;
    let expected = if role == "echo" || role == "stubborn" || role == "frozen" { 2 } else { 3 };
    assert!(world.processes().len() >= expected, "the checker sees {:?}", world.processes());
    if let End::GuardianKilled = end {
        send_signal(guardian(&world), Signal::KILL);
    }
    drop(pipes.stdin);
    match end {
        End::Stop => drop(job.stop().await),
        End::Kill => job.kill(),
        End::Drop => drop(job),
        End::GuardianKilled => assert_eq!(job.gone().await.cause, ExitCause::GuardianLost),
    }
    world.assert_empty(&format!("{role} after {end:?}")).await;
}

fn guardian(world: &World) -> u32 {
    let all = world.processes();
    all.iter().find(|(_, line)| line.starts_with("tsugi-guardian")).expect("there is a guardian").0
}

#[tokio::test]
async fn nothing_survives_a_stop() {
    for (role, said) in ROLES {
        check(role, *said, End::Stop).await;
    }
}

#[tokio::test]
async fn nothing_survives_a_kill() {
    for (role, said) in ROLES {
        check(role, *said, End::Kill).await;
    }
}

#[tokio::test]
async fn nothing_survives_the_last_handle() {
    for (role, said) in ROLES {
        check(role, *said, End::Drop).await;
    }
}

#[tokio::test]
async fn nothing_survives_the_death_of_the_guardian_while_we_live() {
    for (role, said) in ROLES {
        check(role, *said, End::GuardianKilled).await;
    }
}

/// The supervising process is another one here, and the test kills it.
async fn check_supervisor(role: &str, said: usize, signal: Signal) {
    let world = World::new();
    let mut supervisor = world.supervisor("supervise", role);
    let stdout = Receiver::from_owned_fd(supervisor.stdout.take().unwrap().into()).unwrap();
    wait_ready(stdout, said).await;
    assert!(world.processes().len() >= 3, "the checker sees {:?}", world.processes());
    send_signal(supervisor.id(), signal);
    supervisor.wait().unwrap();
    world.assert_empty(&format!("{role} after {signal:?} to the supervisor")).await;
}

#[tokio::test]
async fn nothing_survives_sigkill_of_the_supervising_process() {
    for (role, said) in ROLES {
        check_supervisor(role, *said, Signal::KILL).await;
    }
}

#[tokio::test]
async fn nothing_survives_sigterm_of_the_supervising_process() {
    for (role, said) in ROLES {
        check_supervisor(role, *said, Signal::TERM).await;
    }
}

/// Without this row, the others might only prove that the checker is blind.
#[tokio::test]
async fn a_careless_supervisor_leaves_survivors_that_the_checker_sees() {
    for (role, said) in [("stubborn", 1), ("daemon", 1), ("family", 1)] {
        let world = World::new();
        let mut supervisor = world.supervisor("careless", role);
        let stdout = Receiver::from_owned_fd(supervisor.stdout.take().unwrap().into()).unwrap();
        wait_ready(stdout, said).await;
        send_signal(supervisor.id(), Signal::KILL);
        supervisor.wait().unwrap();
        let survivors = world.processes();
        assert!(!survivors.is_empty(), "{role} should have survived carelessness");
        for (pid, _) in survivors {
            send_signal(pid, Signal::KILL);
        }
        world.assert_empty("cleaning up").await;
    }
}

#[tokio::test]
async fn a_launcher_that_ends_first_takes_the_server_it_started_with_it() {
    let world = World::new();
    let (job, mut pipes) = SupervisedJob::spawn(world.command("launcher"), quick()).await.unwrap();
    wait_ready(&mut pipes.stdout, 2).await;
    pipes.stdin.write_all(b"x").await.unwrap();
    let report = job.gone().await;
    assert_eq!((report.status, report.cause), (ChildExit::Code(0), ExitCause::Itself));
    assert_eq!(report.swept, 2);
    world.assert_empty("launcher").await;
}

#[tokio::test]
async fn the_terminal_and_signals_to_the_guardian_do_not_end_it() {
    let world = World::new();
    let (job, mut pipes) = SupervisedJob::spawn(world.command("echo"), quick()).await.unwrap();
    wait_ready(&mut pipes.stdout, 1).await;
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
        send_signal(guardian(&world), signal);
    }
    pipes.stdin.write_all(b"ready\n").await.unwrap();
    wait_ready(&mut pipes.stdout, 1).await;
    assert_eq!((job.phase(), job.tier()), (JobPhase::Running, SupervisionTier::Guardian));
    drop(pipes);
    assert!(job.stop().await.status.is_success());
}

#[tokio::test]
async fn a_runtime_that_is_dropped_leaves_nothing() {
    let world = World::new();
    let command = world.command("stubborn");
    let started = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (job, mut pipes) = SupervisedJob::spawn(command, quick()).await.unwrap();
            wait_ready(&mut pipes.stdout, 1).await;
            std::mem::forget(job);
        });
    });
    started.join().unwrap();
    world.assert_empty("after its runtime").await;
}

#[tokio::test]
async fn a_spawn_that_is_given_up_half_way_leaves_nothing() {
    let world = World::new();
    for micros in (0..6000).step_by(300) {
        let spawn = SupervisedJob::spawn(world.command("stubborn"), quick());
        let _ = tokio::time::timeout(Duration::from_micros(micros), spawn).await;
    }
    world.assert_empty("given up").await;
}

/// Both can be killed at once, by someone who means it; what is left is found by its mark when we start again.
#[tokio::test]
async fn a_sweep_ends_what_survived_supervisor_and_guardian_together() {
    let world = World::new();
    let mut supervisor = world.supervisor("supervise", "daemon");
    let stdout = Receiver::from_owned_fd(supervisor.stdout.take().unwrap().into()).unwrap();
    wait_ready(stdout, 1).await;
    let guardian = guardian(&world);
    send_signal(guardian, Signal::STOP);
    send_signal(supervisor.id(), Signal::KILL);
    supervisor.wait().unwrap();
    send_signal(guardian, Signal::KILL);
    let is_stray = |line: &str| !line.starts_with("tsugi-guardian");
    assert!(world.processes().iter().any(|(_, line)| is_stray(line)), "the daemon survives both");
    assert!(!tsugi_process::sweep_strays().is_empty());
    world.assert_empty("swept").await;
}
