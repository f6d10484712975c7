//! The owner of a child that has only a process group, on systems without guardians.

use std::{io, os::unix::process::ExitStatusExt, process::ExitStatus, time::Duration};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;

use super::{
    control::JobControl,
    state::ChildExit,
    task::{JobPlan, OwnerContext, OwnerContextParts, OwnerRequest},
};
use crate::{
    ProcessError, blocking,
    orphans::JobMark,
    stop::{StopEvent, StopLadder, StopStage},
};

/// Starts the child in its own process group.
///
/// It gets no parent-death signal: that one fires when the *thread* that started it ends,
/// and threads of a runtime come and go.
pub(super) fn start(plan: JobPlan) -> Result<JobControl, ProcessError> {
    let at = |step: &'static str| {
        let label = plan.label.clone();
        move |error| ProcessError::spawn(label, step, error)
    };
    let (ladder, options, mark) = (StopLadder::new(plan.options.grace), plan.options.clone(), plan.mark.clone());
    let child = command(&plan).and_then(|mut command| command.spawn()).map_err(at("execute"))?;
    let pid = child.id().ok_or(io::ErrorKind::NotFound.into()).map_err(at("learn its id"))?;
    let JobPlan { stderr, stderr_pipe, sandbox, .. } = plan;
    let (context, inner) = OwnerContext::open(OwnerContextParts { options, stderr, stderr_pipe, sandbox }, pid, pid);
    let group = Pid::from_raw(pid as i32);
    tokio::spawn(GroupOwner { child, group, context, ladder, mark }.run());
    Ok(inner)
}

#[allow(clippy::disallowed_methods, reason = "this crate is the one that starts processes")]
fn command(plan: &JobPlan) -> io::Result<tokio::process::Command> {
    let mut command = tokio::process::Command::new(&plan.resolved.program);
    command.args(&plan.resolved.args).env_clear().envs(plan.resolved.env.iter().cloned());
    command.current_dir(&plan.resolved.cwd).process_group(0).kill_on_drop(true);
    command.stdin(plan.ends.stdin.try_clone()?);
    command.stdout(plan.ends.stdout.try_clone()?);
    command.stderr(plan.ends.stderr.try_clone()?);
    Ok(command)
}

struct GroupOwner {
    child: Child,
    group: Option<Pid>,
    context: OwnerContext,
    ladder: StopLadder,
    mark: JobMark,
}

impl GroupOwner {
    async fn run(mut self) {
        let status = loop {
            let deadline = self.ladder.deadline;
            tokio::select! {
                status = self.child.wait() => break status,
                asked = self.context.asked() => self.push(push(asked)),
                () = sleep_until(deadline) => self.push(StopEvent::Expired),
            }
        };
        // What is left gets no time of its own: without a guardian we cannot see when it has ended.
        self.signal(Signal::KILL);
        self.context.exited(status.map_or(ChildExit::Unknown, exit), Duration::ZERO, 0).await;
        let mark = self.mark.clone();
        let swept = blocking::run(move || mark.kill_bearers()).await.unwrap_or_default();
        self.context.gone(swept.len() as u32, Vec::new()).await;
    }

    fn push(&mut self, push: StopEvent) {
        match self.ladder.push(push, std::time::Instant::now()) {
            Some(StopStage::Terminating) => {
                self.signal(Signal::TERM);
                self.signal(Signal::CONT);
            }
            Some(StopStage::Killing) => self.signal(Signal::KILL),
            _ => {}
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // An empty group is what we want.
            let _ = kill_process_group(group, signal);
        }
    }
}

async fn sleep_until(deadline: Option<std::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

fn push(asked: OwnerRequest) -> StopEvent {
    match asked {
        OwnerRequest::Stop => StopEvent::Stop,
        OwnerRequest::Abandon => StopEvent::Abandon,
        OwnerRequest::Kill => StopEvent::Kill,
    }
}

fn exit(status: ExitStatus) -> ChildExit {
    match (status.code(), status.signal()) {
        (Some(code), _) => ChildExit::Code(code),
        (_, Some(signal)) => ChildExit::Signal(signal),
        _ => ChildExit::Unknown,
    }
}
