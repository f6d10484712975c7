//! Starting: what the child receives, and how an impossible start is reported.

use std::{os::fd::AsRawFd, time::Instant};

use tokio::io::AsyncReadExt;
use tsugi_process::{ChildExit, EnvInheritance, ExitCause, JobCommand, JobOptions, ProcessError, SupervisedJob};

use crate::world::{World, quick, wait_ready};

async fn output_of(command: JobCommand) -> String {
    let (job, mut pipes) = SupervisedJob::spawn(command, quick()).await.unwrap();
    drop(pipes.stdin);
    let mut text = String::new();
    pipes.stdout.read_to_string(&mut text).await.unwrap();
    assert!(job.gone().await.status.is_success());
    text
}

async fn failure_of(command: JobCommand) -> ProcessError {
    SupervisedJob::spawn(command, quick()).await.map(|_| ()).unwrap_err()
}

#[tokio::test]
async fn a_missing_program_or_folder_is_an_error_with_a_hint() {
    let missing = failure_of(JobCommand::new("no-such-program-anywhere")).await;
    assert!(matches!(&missing, ProcessError::NotFound { searched, .. } if !searched.is_empty()));
    assert_eq!(missing.hint().unwrap(), "install it, or give its full path", "and not the whole search path");
    let missing = failure_of(JobCommand::new("/no/such/program")).await;
    assert!(matches!(missing, ProcessError::NotFound { .. }));
    let folder = failure_of(JobCommand::new("true").cwd("/no/such/folder")).await;
    assert!(matches!(folder, ProcessError::NoSuchDirectory { .. }));
}

#[tokio::test]
async fn a_script_without_its_interpreter_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let error = failure_of(JobCommand::new(&script)).await;
    assert!(matches!(error, ProcessError::NoInterpreter { .. }), "{error:?}");
}

#[tokio::test]
async fn a_child_that_ends_at_once_tells_how() {
    for (role, argument, expected) in
        [("exit", "0", ChildExit::Code(0)), ("exit", "7", ChildExit::Code(7)), ("signal", "6", ChildExit::Signal(6))]
    {
        let world = World::new();
        let (job, _pipes) = SupervisedJob::spawn(world.command(role).arg(argument), quick()).await.unwrap();
        let report = job.exited().await;
        assert_eq!((report.status, report.cause), (expected, ExitCause::Itself));
    }
}

#[tokio::test]
async fn a_child_sees_what_was_set_and_not_what_we_hold() {
    let world = World::new();
    let text = output_of(world.command("environment").env("GIVEN", "yes").inherit(EnvInheritance::Nothing)).await;
    let names: Vec<&str> = text.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    assert_eq!(names, ["GIVEN", "HOSTILE_MARK", "TSUGI_JOB"]);
}

#[tokio::test]
async fn a_child_holds_no_file_but_its_three_pipes() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    // Even a file that someone forgot to mark close-on-exec.
    rustix::io::fcntl_setfd(&listener, rustix::io::FdFlags::empty()).unwrap();
    let world = World::new();
    let text = output_of(world.command("files")).await;
    let numbers: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(numbers, ["0", "1", "2"], "{text}; the listener is {}", listener.as_raw_fd());
}

#[tokio::test]
async fn a_guardian_holds_no_pipe_of_its_child_nor_any_file_of_ours() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::io::fcntl_setfd(&listener, rustix::io::FdFlags::empty()).unwrap();
    let world = World::new();
    let (_job, mut pipes) = SupervisedJob::spawn(world.command("echo"), quick()).await.unwrap();
    wait_ready(&mut pipes.stdout, 1).await;
    let guardian = world.processes().into_iter().find(|(_, line)| line.starts_with("tsugi-guardian")).unwrap().0;
    let files = std::fs::read_dir(format!("/proc/{guardian}/fd")).unwrap().flatten();
    let targets: Vec<String> =
        files.map(|file| std::fs::read_link(file.path()).unwrap().to_string_lossy().into_owned()).collect();
    assert!(targets.iter().all(|target| !target.starts_with("pipe:")), "{targets:?}");
    assert_eq!(targets.iter().filter(|target| target.starts_with("socket:")).count(), 1, "{targets:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_children_start_side_by_side() {
    let world = World::new();
    let start = Instant::now();
    let spawns: Vec<_> = (0..20).map(|_| tokio::spawn(SupervisedJob::spawn(world.command("echo"), quick()))).collect();
    let mut jobs = Vec::new();
    for spawn in spawns {
        jobs.push(spawn.await.unwrap().unwrap());
    }
    println!("20 children started in {:?}", start.elapsed());
    let all: std::collections::BTreeSet<u32> = jobs.iter().map(|(job, _)| job.pid()).collect();
    assert_eq!(all.len(), 20);
    for (job, pipes) in jobs {
        drop(pipes);
        assert!(job.stop().await.status.is_success() || job.exited().await.status == ChildExit::Signal(libc::SIGPIPE));
    }
    world.assert_empty("twenty").await;
}

#[tokio::test]
async fn a_job_shows_its_processes() {
    let world = World::new();
    let (job, mut pipes) = SupervisedJob::spawn(world.command("family"), quick()).await.unwrap();
    wait_ready(&mut pipes.stdout, 1).await;
    let tree = job.tree();
    assert_eq!(tree.len(), 3, "{tree:?}");
    assert_eq!(tree[0].pid, job.pid());
    assert_eq!(tree[1].parent, tree[0].pid);
    assert!(tree.iter().all(|process| process.command.contains("family") && process.resident_bytes > 0));
    job.kill();
    job.gone().await;
}

#[tokio::test]
async fn the_pipes_can_be_tried_without_waiting() {
    let world = World::new();
    let (job, mut pipes) = SupervisedJob::spawn(world.command("echo"), JobOptions::default()).await.unwrap();
    wait_ready(&mut pipes.stdout, 1).await;
    assert_eq!(pipes.stdin.try_write(b"hello").unwrap(), 5);
    pipes.stdout.readable().await.unwrap();
    let mut buffer = [0; 16];
    let count = loop {
        match pipes.stdout.try_read(&mut buffer) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => pipes.stdout.readable().await.unwrap(),
            result => break result.unwrap(),
        }
    };
    assert_eq!(&buffer[..count], b"hello");
    drop(pipes);
    job.stop().await;
}

/// The limits are set in a process of its own, since they hold for everyone there.
#[tokio::test]
async fn a_system_short_of_files_or_processes_is_an_error_and_not_a_panic() {
    let world = World::new();
    for (what, step) in [("files", "open pipes"), ("processes", "look for it")] {
        let said = output_of(world.command("starved").args([what, "exit"])).await;
        assert!(said.starts_with("retryable: true") && said.contains(step), "{what}: {said}");
    }
}
