//! Other processes for the tests: this very binary, started again in a role, spoken to by lines.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tsugi_pm::action::Pm;
use tsugi_pm::action::caller::ActionCaller;
use tsugi_pm::action::claim::ClaimTask;
use tsugi_pm::action::create::CreateTask;
use tsugi_pm::action::handoff::AcceptHandoff;
use tsugi_pm::action::list::ListTasks;
use tsugi_pm::domain::fault::PmFault;
use tsugi_pm::domain::id::{HandoffId, ProjectId, TaskId};
use tsugi_pm::domain::task::TaskStatus;
use tsugi_pm::domain::time::Moment;
use tsugi_pm::store::clock::TimeSource;
use tsugi_pm::store::{StoreLocation, StoreOptions};

use crate::world::{caller, claim, finish};

/// A clock that every process reads from one file, so that a test moves time for all of them.
#[derive(Clone)]
pub struct FileClock(std::path::PathBuf);

impl FileClock {
    pub fn new(database: &Path) -> Self {
        Self(database.with_extension("clock"))
    }

    pub fn set(&self, moment: Moment) {
        let partial = self.0.with_extension("clock.new");
        std::fs::write(&partial, moment.0.to_string()).unwrap();
        std::fs::rename(&partial, &self.0).unwrap();
    }
}

impl TimeSource for FileClock {
    fn now(&self) -> Moment {
        Moment(std::fs::read_to_string(&self.0).unwrap().trim().parse().unwrap())
    }
}

/// A child in a role.
pub struct Other {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Other {
    /// Starts this binary again; its standard output carries nothing but the role's lines.
    pub fn start(role: &str, database: &Path, arguments: &[&str]) -> Self {
        Self::start_at(role, database.to_str().unwrap(), &FileClock::new(database), arguments)
    }

    /// The same on any database, by a clock that is read if its file is there.
    #[expect(clippy::disallowed_methods, reason = "a test starts itself, and waits for it below")]
    pub fn start_at(role: &str, database: &str, clock: &FileClock, arguments: &[&str]) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["child::play_a_role", "--exact", "--nocapture"])
            .env("TSUGI_ROLE", role)
            .env("TSUGI_DATABASE", database)
            .env("TSUGI_CLOCK", &clock.0)
            .env("TSUGI_ARGUMENTS", arguments.join(" "))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Self { process, input, output }
    }

    pub fn say(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
        self.input.flush().unwrap();
    }

    /// The next line that the role wrote, or nothing when it has ended. The test harness's own lines are passed over.
    pub fn hear(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line).unwrap_or(0) == 0 {
                return None;
            }
            if let Some((_, said)) = line.trim_end_matches('\n').split_once("» ") {
                // A line without its end was cut by the kill: nobody was told.
                return line.ends_with('\n').then(|| said.to_owned());
            }
        }
    }

    /// Says a line and hears the answer to it.
    pub fn ask(&mut self, line: &str) -> String {
        self.say(line);
        self.hear().unwrap_or_else(|| panic!("it ended at `{line}`"))
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    pub fn wait(mut self) -> std::process::ExitStatus {
        self.process.wait().unwrap()
    }
}

pub fn said(line: &str) {
    println!("» {line}");
    std::io::stdout().flush().unwrap();
}

fn heard() -> Option<String> {
    let mut line = String::new();
    (std::io::stdin().read_line(&mut line).unwrap() > 0).then(|| line.trim().to_owned())
}

fn code(result: Result<String, PmFault>) -> String {
    result.unwrap_or_else(|fault| fault.code.to_string())
}

/// Not a test by itself: what a child does when it was given a role.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn play_a_role() {
    let Ok(role) = std::env::var("TSUGI_ROLE") else { return };
    let database = std::env::var("TSUGI_DATABASE").unwrap();
    let clock = FileClock(std::env::var_os("TSUGI_CLOCK").unwrap().into());
    let arguments = std::env::var("TSUGI_ARGUMENTS").unwrap();
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let mut options = StoreOptions { connections: 1, ..StoreOptions::new(StoreLocation::parse(&database)) };
    if clock.0.exists() {
        options = options.with_clock(clock);
    }
    if role == "migrate" {
        options.vfs = Some(crate::vfs::register());
        crate::vfs::abort_at(arguments[0].parse().unwrap());
    }
    let pm = Pm::open(options).await.unwrap();
    match role.as_str() {
        "migrate" => said("open"),
        "claim" => claim_until_empty(&pm, arguments[0]).await,
        "hold" => hold(&pm, arguments[0]).await,
        "accept" => accept(&pm, arguments[0], arguments[1]).await,
        "live" => crate::soak::live(&pm, arguments[0], arguments[1]).await,
        "write" => write_for_ever(&pm, arguments[0], arguments[1]).await,
        other => panic!("unknown role {other}"),
    }
}

/// Claims and finishes until nothing is left, saying what it got.
async fn claim_until_empty(pm: &Pm, who: &str) {
    said("ready");
    heard();
    loop {
        let taken = pm.perform(&caller(who), ClaimTask::default()).await.unwrap();
        let Some(task) = taken.task else { break };
        said(&format!("{} {}", task.id, taken.claim.unwrap().fence));
        pm.perform(&caller(who), finish(&task.id, TaskStatus::Done)).await.unwrap();
    }
    said("empty");
}

/// Does one thing after the other on command.
async fn hold(pm: &Pm, who: &str) {
    said("ready");
    while let Some(line) = heard() {
        let (verb, rest) = line.split_once(' ').unwrap_or((&line, ""));
        let result = match verb {
            "claim" => pm
                .perform(&caller(who), claim(&TaskId::parse(rest).unwrap()))
                .await
                .map(|taken| format!("fence {}", taken.claim.unwrap().fence)),
            "finish" => pm
                .perform(&caller(who), finish(&TaskId::parse(rest).unwrap(), TaskStatus::Done))
                .await
                .map(|_| "done".to_owned()),
            "create" => create(pm, who, rest).await,
            "count" => count(pm).await.map(|count| count.to_string()),
            "verify" => pm.verify().await.map(|found| format!("{:?}", found.problems)),
            other => panic!("unknown verb {other}"),
        };
        said(&code(result));
    }
}

async fn create(pm: &Pm, who: &str, project: &str) -> Result<String, PmFault> {
    let mut wish = CreateTask::titled(&ProjectId::parse(project)?, "by command");
    wish.task.similar_ok = true;
    pm.perform(&caller(who), wish).await.map(|made| made.task.reference)
}

/// How many tasks there are.
async fn count(pm: &Pm) -> Result<usize, PmFault> {
    let mut wish = ListTasks { limit: Some(200), ..ListTasks::default() };
    let mut count = 0;
    loop {
        let found = pm.perform(&ActionCaller::operator(), wish.clone()).await?;
        count += found.tasks.len();
        match found.next_cursor {
            Some(cursor) => wish.cursor = Some(cursor),
            None => return Ok(count),
        }
    }
}

/// Accepts one handoff at a signal.
async fn accept(pm: &Pm, who: &str, handoff: &str) {
    said("ready");
    heard();
    let wish = AcceptHandoff {
        handoff_id: HandoffId::parse(handoff).unwrap(),
        note: None,
        session_id: None,
        idempotency_key: None,
    };
    let answer = match pm.perform(&caller(who), wish).await {
        Ok(taken) => format!("won {}", taken.claim.agent_id),
        Err(fault) => format!("{} {}", fault.code, fault.details["accepted_by"].as_str().unwrap_or("nobody")),
    };
    said(&answer);
}

/// Creates, claims and finishes tasks until it is killed, saying each thing after it is acknowledged.
async fn write_for_ever(pm: &Pm, who: &str, project: &str) {
    let project = ProjectId::parse(project).unwrap();
    for number in 0_u64.. {
        let mut wish = CreateTask::titled(&project, &format!("task {number}"));
        wish.task.similar_ok = true;
        let task = pm.perform(&caller(who), wish).await.unwrap().task;
        said(&format!("created {} {}", task.id, task.reference));
        let taken = pm.perform(&caller(who), claim(&task.id)).await;
        if let Ok(taken) = taken {
            said(&format!("claimed {} {}", task.id, taken.claim.unwrap().fence));
            pm.perform(&caller(who), finish(&task.id, TaskStatus::Done)).await.unwrap();
            said(&format!("finished {}", task.id));
        }
    }
}
