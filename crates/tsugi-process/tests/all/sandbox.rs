//! A confined child attacks, and the test checks the effect from outside.
//!
//! Every attack is first made without a sandbox, where it must succeed: a row that cannot fail proves nothing.

use std::{
    io::ErrorKind,
    net::{TcpListener, UdpSocket},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    time::Duration,
};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tsugi_process::{
    Enforcement, ExitCause, Isolation, JobCommand, MemorySize, NetworkAccess, ProcessError, SandboxPolicy,
    SandboxRules, SupervisedJob, SupervisionTier,
};

use crate::world::{World, quick, wait_ready};

/// A home with a secret, and a project in it where the child stands.
pub(crate) struct Scene {
    world: World,
    folder: tempfile::TempDir,
}

impl Scene {
    /// Not below the machine's temporary directories, which children may use, though the checkout may be.
    fn place() -> std::path::PathBuf {
        let own = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let is_shared = ["/tmp", "/var/tmp", "/dev/shm"].iter().any(|shared| own.starts_with(shared));
        if is_shared { std::env::home_dir().unwrap() } else { own }
    }

    pub(crate) fn new() -> Scene {
        let place = std::env::var_os("SCENE_FOLDER").map_or_else(Scene::place, Into::into);
        let folder = tempfile::Builder::new().prefix("scene-").tempdir_in(place).unwrap();
        for name in ["home/.ssh", "home/project", "outside"] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        for name in ["home/.ssh/key", "home/diary", "outside/file", "home/project/mine"] {
            std::fs::write(folder.path().join(name), "the-secret").unwrap();
        }
        Scene { world: World::new(), folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn command(&self, policy: &SandboxPolicy, attack: &str, target: &str) -> JobCommand {
        let command = self.world.command("attack").arg(attack).env("TARGET", target).sandbox(policy.clone());
        // A file named among the arguments could be read; the target is told otherwise.
        command.env("HOME", self.path("home")).cwd(self.path("home/project"))
    }

    /// Runs an attack to its end and gives what it said.
    async fn attack(&self, policy: &SandboxPolicy, attack: &str, target: &str) -> String {
        let (job, mut pipes) = SupervisedJob::spawn(self.command(policy, attack, target), quick()).await.unwrap();
        let mut said = String::new();
        pipes.stdout.read_to_string(&mut said).await.unwrap();
        let report = job.gone().await;
        assert!(report.status.is_success(), "{attack}: {report} {:?}", report.stderr_tail);
        said
    }
}

fn rules(net: NetworkAccess, isolation: Isolation) -> SandboxPolicy {
    SandboxPolicy::Rules(SandboxRules { net, isolation, ..SandboxRules::default() })
}

/// Each with the name shown in the table.
fn policies() -> Vec<(&'static str, SandboxPolicy)> {
    vec![
        ("default", SandboxPolicy::Default),
        ("net: none, standard", rules(NetworkAccess::None, Isolation::Standard)),
        ("default, standard", rules(NetworkAccess::All, Isolation::Standard)),
        ("net: none", rules(NetworkAccess::None, Isolation::Auto)),
        ("net: loopback", rules(NetworkAccess::Loopback, Isolation::Auto)),
    ]
}

async fn reads(scene: &Scene, policy: &SandboxPolicy, name: &str) -> bool {
    scene.attack(policy, "read", scene.path(name).to_str().unwrap()).await.contains("the-secret")
}

async fn writes(scene: &Scene, policy: &SandboxPolicy, name: &str) -> bool {
    let path = scene.path(name);
    scene.attack(policy, "write", path.to_str().unwrap()).await;
    std::fs::remove_file(path).is_ok()
}

/// A file of somebody else in the machine's temporary directory.
async fn reaches_temporary(scene: &Scene, policy: &SandboxPolicy) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, "the-secret").unwrap();
    let said = scene.attack(policy, "read", path.to_str().unwrap()).await;
    scene.attack(policy, "write", path.to_str().unwrap()).await;
    said.contains("the-secret") || std::fs::read_to_string(&path).unwrap() != "the-secret"
}

async fn changes_mode(scene: &Scene, policy: &SandboxPolicy, name: &str) -> bool {
    let (path, mode) = (scene.path(name), 0o600);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    scene.attack(policy, "mode", path.to_str().unwrap()).await;
    path.metadata().unwrap().permissions().mode() & 0o777 != mode
}

async fn reaches_tcp(scene: &Scene, policy: &SandboxPolicy) -> bool {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    scene.attack(policy, "tcp", &listener.local_addr().unwrap().to_string()).await;
    listener.accept().is_ok()
}

async fn reaches_udp(scene: &Scene, policy: &SandboxPolicy) -> bool {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    scene.attack(policy, "udp", &socket.local_addr().unwrap().to_string()).await;
    match socket.recv(&mut [0; 16]) {
        Ok(_) => true,
        Err(error) => panic_unless(error.kind() == ErrorKind::WouldBlock),
    }
}

fn panic_unless(is_expected: bool) -> bool {
    assert!(is_expected, "the socket of the test itself failed");
    false
}

/// Attacks another child of ours, of the same user, and looks whether it still answers.
async fn harms(scene: &Scene, policy: &SandboxPolicy, attack: &str) -> bool {
    let victim_world = World::new();
    let (victim, mut pipes) = SupervisedJob::spawn(victim_world.command("echo"), quick()).await.unwrap();
    wait_ready(&mut pipes.stdout, 1).await;
    let said = scene.attack(policy, attack, &victim.pid().to_string()).await;
    let limit = std::fs::read_to_string(format!("/proc/{}/limits", victim.pid())).unwrap_or_default();
    let is_limited = limit.lines().any(|line| line.starts_with("Max open files") && line.contains(" 3 "));
    let is_alive = pipes.stdin.write_all(b"ready\n").await.is_ok()
        && tokio::time::timeout(Duration::from_secs(5), pipes.stdout.read_u8()).await.is_ok_and(|byte| byte.is_ok());
    victim.kill();
    victim.gone().await;
    !is_alive || is_limited || said.contains(&victim_world.mark) || (attack == "ptrace" && said.contains("done"))
}

/// One line of the table: what got through.
async fn breaches(scene: &Scene, policy: &SandboxPolicy) -> Vec<&'static str> {
    let mut through = Vec::new();
    let mut note = |name, got_through: bool| {
        if got_through {
            through.push(name)
        }
    };
    note("read key", reads(scene, policy, "home/.ssh/key").await);
    note("read diary", reads(scene, policy, "home/diary").await);
    note("read outside", reads(scene, policy, "outside/file").await);
    note("write outside", writes(scene, policy, "outside/new").await);
    note("write home", writes(scene, policy, "home/new").await);
    note("temporary", reaches_temporary(scene, policy).await);
    note("mode", changes_mode(scene, policy, "outside/file").await);
    note("tcp", reaches_tcp(scene, policy).await);
    note("udp", reaches_udp(scene, policy).await);
    note("signal", harms(scene, policy, "signal").await);
    note("ptrace", harms(scene, policy, "ptrace").await);
    note("limit", harms(scene, policy, "limit").await);
    note("read memory", harms(scene, policy, "environment").await);
    note("namespace", scene.attack(policy, "mount", "-").await.contains("done"));
    through
}

#[tokio::test]
async fn every_attack_succeeds_without_a_sandbox() {
    let scene = Scene::new();
    let through = breaches(&scene, &SandboxPolicy::Off).await;
    println!("{:<22}{through:?}", "off");
    assert_eq!(through.len(), 14, "only these succeed: {through:?}");
}

#[tokio::test]
async fn nothing_gets_through_that_the_policy_does_not_allow() {
    for (name, policy) in policies() {
        let scene = Scene::new();
        let (job, _pipes) = SupervisedJob::spawn(scene.command(&policy, "read", "/dev/null"), quick()).await.unwrap();
        let report = job.sandbox_report().clone();
        let through = breaches(&scene, &policy).await;
        println!("{name}: got through {through:?}\n{report}\n");
        let is_standard = name.ends_with("standard");
        let mode = ["mode"].into_iter().filter(|_| is_standard);
        let net = ["tcp", "udp"].into_iter().filter(|_| name.starts_with("default"));
        assert_eq!(through, mode.chain(net).collect::<Vec<_>>(), "{name}");
        assert_eq!(report.shortcomings(), None);
        // Without mounts of its own the mode of a file can be changed, and that is told.
        assert_eq!(report.files == Enforcement::Enforced, !is_standard, "{report}");
    }
}

#[tokio::test]
async fn a_confined_child_can_use_what_is_its_own() {
    for (name, policy) in policies() {
        let scene = Scene::new();
        assert!(reads(&scene, &policy, "home/project/mine").await, "{name}");
        assert!(writes(&scene, &policy, "home/project/new").await, "{name}");
        assert!(changes_mode(&scene, &policy, "home/project/mine").await, "{name}");
    }
}

#[tokio::test]
async fn temporary_files_belong_to_the_job_and_go_with_it() {
    for (name, policy) in policies() {
        let scene = Scene::new();
        let said = scene.attack(&policy, "temporary", "-").await;
        let (folder, _) = said.split_once(" holds mine").unwrap_or_else(|| panic!("{name}: {said}"));
        assert!(!PathBuf::from(folder).join("temporary").exists(), "{name}: {folder}");
        assert_eq!(folder.contains("tsugi-job-"), name.ends_with("standard"), "{name}: {folder}");
        let left = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten();
        let left = left.filter(|entry| folder.ends_with(entry.file_name().to_str().unwrap_or("-"))).count();
        assert_eq!(left, 0, "{name}: {folder} is still there");
    }
}

#[tokio::test]
async fn what_is_named_below_the_temporary_directory_stays_where_it_is() {
    for isolation in [Isolation::Standard, Isolation::Auto] {
        let scene = Scene::new();
        let folder = tempfile::tempdir().unwrap();
        for name in ["open", "shown", "closed"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
            std::fs::write(folder.path().join(name).join("file"), "the-secret").unwrap();
        }
        std::os::unix::fs::symlink("shown", folder.path().join("link")).unwrap();
        let (read, write) = (vec![folder.path().join("link")], vec![folder.path().join("open")]);
        let rules = SandboxRules { read: Some(read), write: Some(write), isolation, ..SandboxRules::default() };
        let policy = SandboxPolicy::Rules(rules);
        let target = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        for (name, is_read) in [("open/file", true), ("shown/file", true), ("link/file", true), ("closed/file", false)]
        {
            let said = scene.attack(&policy, "read", &target(name)).await;
            assert_eq!(said.contains("the-secret"), is_read, "{isolation:?} {name}: {said}");
        }
        for (name, is_written) in [("open/new", true), ("shown/new", false), ("closed/new", false)] {
            scene.attack(&policy, "write", &target(name)).await;
            assert_eq!(folder.path().join(name).exists(), is_written, "{isolation:?} {name}");
        }
    }
}

#[tokio::test]
async fn loopback_means_a_loopback_of_its_own() {
    let scene = Scene::new();
    assert_eq!(scene.attack(&rules(NetworkAccess::Loopback, Isolation::Auto), "loopback", "-").await, "done\n");
    assert!(scene.attack(&rules(NetworkAccess::None, Isolation::Auto), "loopback", "-").await.contains("refused"));
}

#[tokio::test]
async fn a_child_that_forks_without_end_is_ended_and_nothing_of_it_is_left() {
    for isolation in [Isolation::Standard, Isolation::Strict] {
        let scene = Scene::new();
        let policy = SandboxPolicy::Rules(SandboxRules { processes: 60, isolation, ..SandboxRules::default() });
        let (job, _pipes) = SupervisedJob::spawn(scene.command(&policy, "forks", "-"), quick()).await.unwrap();
        let report = job.gone().await;
        assert_eq!(report.cause, ExitCause::ProcessLimit, "{report}");
        println!("{isolation:?}: {} processes were swept", report.swept);
        scene.world.assert_empty("fork bomb").await;
    }
}

#[tokio::test]
async fn a_child_that_allocates_without_end_is_ended() {
    let scene = Scene::new();
    let policy = SandboxPolicy::Rules(SandboxRules { memory: MemorySize(100 << 20), ..SandboxRules::default() });
    let (job, _pipes) = SupervisedJob::spawn(scene.command(&policy, "memory", "-"), quick()).await.unwrap();
    let report = job.gone().await;
    assert_eq!(report.cause, ExitCause::MemoryLimit, "{report}");
    println!("it held {} MiB of 100", report.peak_bytes >> 20);
    assert!(report.peak_bytes < 1 << 30, "it held {} MiB", report.peak_bytes >> 20);
}

#[tokio::test]
async fn our_own_variables_reach_a_confined_child_only_by_name() {
    // CARGO_MANIFEST_DIR and CARGO_PKG_NAME are in our environment while tests run.
    let scene = Scene::new();
    let policy = SandboxPolicy::Rules(SandboxRules { env: vec!["CARGO_PKG_NAME".into()], ..SandboxRules::default() });
    let command = scene.world.command("environment").inherit(tsugi_process::EnvInheritance::All).sandbox(policy);
    let (_job, mut pipes) = SupervisedJob::spawn(command, quick()).await.unwrap();
    let mut said = String::new();
    pipes.stdout.read_to_string(&mut said).await.unwrap();
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    assert!(said.contains("CARGO_PKG_NAME=") && !said.contains("CARGO_MANIFEST_DIR="), "{said}");
}

#[tokio::test]
async fn a_child_can_be_kept_on_one_core() {
    let scene = Scene::new();
    let policy = SandboxPolicy::Rules(SandboxRules { cpu: Some(1), ..SandboxRules::default() });
    let (job, mut pipes) = SupervisedJob::spawn(scene.world.command("echo").sandbox(policy), quick()).await.unwrap();
    wait_ready(&mut pipes.stdout, 1).await;
    let status = std::fs::read_to_string(format!("/proc/{}/status", job.pid())).unwrap();
    let cores = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    assert!(cores.parse::<u32>().is_ok(), "{cores}");
    assert_eq!(job.sandbox_report().cpu, Enforcement::Enforced);
}

#[tokio::test]
async fn a_strict_sandbox_is_stopped_like_any_other_job() {
    for (role, said) in [("echo", 1), ("stubborn", 1), ("daemon", 1), ("launcher", 2)] {
        let world = World::new();
        let command = world.command(role).sandbox(rules(NetworkAccess::None, Isolation::Strict));
        let (job, mut pipes) = SupervisedJob::spawn(command, quick()).await.unwrap();
        wait_ready(&mut pipes.stdout, said).await;
        assert_eq!(job.tier(), SupervisionTier::PidNamespace);
        assert!(job.tree().iter().any(|process| process.pid == job.pid() && process.command.contains(role)));
        drop(pipes.stdin);
        let report = job.stop().await;
        assert_eq!(report.status.is_success(), role != "stubborn", "{role}: {report}");
        world.assert_empty(role).await;
    }
}

#[tokio::test]
async fn a_rule_that_names_a_missing_place_is_an_error_before_anything_runs() {
    let scene = Scene::new();
    let policy =
        SandboxPolicy::Rules(SandboxRules { write: Some(vec!["/no/such/place".into()]), ..SandboxRules::default() });
    let error =
        SupervisedJob::spawn(scene.command(&policy, "read", "/dev/null"), quick()).await.map(|_| ()).unwrap_err();
    assert!(matches!(&error, ProcessError::Sandbox { what } if what.contains("/no/such/place")), "{error}");
}

#[tokio::test]
async fn an_interpreter_that_the_sandbox_keeps_away_is_named_as_such() {
    let scene = Scene::new();
    let interpreter = scene.path("outside/interpreter");
    std::fs::copy("/bin/sh", &interpreter).unwrap();
    let script = scene.path("home/project/script");
    std::fs::write(&script, format!("#!{}\nexit 0\n", interpreter.display())).unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    for isolation in [Isolation::Standard, Isolation::Auto] {
        let command = JobCommand::new(&script).env("HOME", scene.path("home")).cwd(scene.path("home/project"));
        let command = command.sandbox(rules(NetworkAccess::All, isolation));
        let error = SupervisedJob::spawn(command, quick()).await.map(|_| ()).unwrap_err();
        assert!(
            matches!(&error, ProcessError::SandboxDenies { path, .. } if path.ends_with("outside/interpreter")),
            "{error}"
        );
        assert!(error.hint().is_some_and(|hint| hint.contains("outside/interpreter") && hint.contains("`read`")));
    }
}
