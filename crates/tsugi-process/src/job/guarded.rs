//! The owner of a child that has a guardian.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    control::JobControl,
    state::{ChildExit, ExitCause},
    task::{JobPlan, OwnerContext, OwnerContextParts, OwnerRequest},
};
use crate::{
    EgressAccess, ProcessError, blocking,
    egress::{EgressTask, WayOut},
    guardian::{
        launch::GuardianHandle,
        message::{self, GuardianEvent, GuardianRequest, RunRequest},
    },
    orphans::JobMark,
    sandbox::linux::{limit::ExceededLimit, scratch::ScratchDirectories},
    tree,
};

/// Starts the child under a guardian and waits until it runs.
pub(super) async fn start(plan: JobPlan) -> Result<JobControl, ProcessError> {
    let JobPlan { label, resolved, mut ends, options, mark, stderr, stderr_pipe, confinement, sandbox } = plan;
    let at = |step: &'static str| {
        let label = label.clone();
        move |error| ProcessError::spawn(label, step, error)
    };
    let mut guardian = start_guardian(label.clone()).await.map_err(at("start its guardian"))?;
    let scratch = confinement.as_ref().map(|confinement| confinement.scratch.clone()).unwrap_or_default();
    // Asked before the confinement moves into the request; explains a refused execution.
    let denied = confinement.as_ref().and_then(|confinement| confinement.denies(&resolved.program));
    let way_out = match confinement.as_ref().and_then(|confinement| confinement.egress()) {
        Some(list) => {
            let (way_out, theirs) = WayOut::prepare(list.clone()).map_err(at("prepare its way out"))?;
            ends.egress = Some(theirs);
            Some(way_out)
        }
        None => None,
    };
    let request = GuardianRequest::Run(Box::new(RunRequest::new(&resolved, options.grace, confinement)));
    guardian.send(&request, ends).await.map_err(at("instruct its guardian"))?;
    let pid = match guardian.event().await {
        Some(GuardianEvent::Started { pid }) => pid,
        Some(GuardianEvent::Failed { step, errno }) => {
            // It is ending; the error need not wait for that.
            tokio::spawn(guardian.bury());
            return Err(failed(label, &resolved.program, denied, step, errno));
        }
        _ => return Err(at("receive from its guardian")(std::io::ErrorKind::BrokenPipe.into())),
    };
    // The socket was sent before the program was started, so it is there by now.
    let access = options.egress.clone().unwrap_or_else(|| EgressAccess::of(&label));
    let egress = way_out.map(|way_out| way_out.serve(access)).transpose().map_err(at("open its way out"))?;
    // Everything below the guardian belongs to the job.
    let root = guardian.pid().unwrap_or(pid);
    let (context, inner) = OwnerContext::open(OwnerContextParts { options, stderr, stderr_pipe, sandbox }, pid, root);
    tokio::spawn(GuardedOwner { guardian, context, mark, root, swept: 0, scratch, _egress: egress }.run());
    Ok(inner)
}

/// `posix_spawn` waits until the new process has its own memory, which takes about a millisecond.
async fn start_guardian(label: String) -> std::io::Result<GuardianHandle> {
    blocking::run(move || GuardianHandle::start(&label)).await?
}

fn failed(label: String, program: &Path, denied: Option<PathBuf>, step: String, errno: i32) -> ProcessError {
    match (step.as_str(), errno, denied) {
        // The file itself was there a moment ago.
        ("execute", libc::ENOENT, None) => ProcessError::NoInterpreter { path: program.to_owned() },
        ("execute", libc::EACCES | libc::ENOENT, Some(path)) => {
            ProcessError::SandboxDenies { program: program.to_owned(), path }
        }
        ("execute", libc::EACCES, None) => ProcessError::NotExecutable { path: program.to_owned() },
        _ => ProcessError::spawn(label, step, std::io::Error::from_raw_os_error(errno)),
    }
}

struct GuardedOwner {
    guardian: GuardianHandle,
    context: OwnerContext,
    mark: JobMark,
    root: u32,
    swept: u32,
    /// Removed here only if the guardian could not.
    scratch: ScratchDirectories,
    /// Ends with the job.
    _egress: Option<EgressTask>,
}

impl GuardedOwner {
    async fn run(mut self) {
        let mut overdue = std::pin::pin!(tokio::time::sleep(Duration::MAX));
        let mut is_stopping = false;
        loop {
            tokio::select! {
                event = self.guardian.event() => {
                    if self.note(event).await {
                        break;
                    }
                }
                asked = self.context.asked() => {
                    // A second request must not extend the deadline.
                    if !is_stopping {
                        is_stopping = true;
                        overdue.as_mut().reset(tokio::time::Instant::now() + self.context.patience());
                    }
                    self.guardian.say(letter(asked)).await;
                }
                () = &mut overdue, if is_stopping => {
                    is_stopping = false;
                    // Processes stuck in the kernel cannot be killed; they are reported instead of waited for.
                    let survivors = tree::descendants(self.root);
                    self.context.gone(self.swept, survivors).await;
                }
            }
        }
        self.guardian.bury().await;
    }

    /// Takes one event; true after the last one.
    async fn note(&mut self, event: Option<GuardianEvent>) -> bool {
        match event {
            Some(GuardianEvent::Started { .. } | GuardianEvent::Failed { .. } | GuardianEvent::Probed(_)) => {}
            Some(GuardianEvent::Passed(ExceededLimit::Memory)) => self.context.ended_by(ExitCause::MemoryLimit),
            Some(GuardianEvent::Passed(ExceededLimit::Processes)) => self.context.ended_by(ExitCause::ProcessLimit),
            Some(GuardianEvent::Exited { code, signal, cpu, peak_bytes }) => {
                self.context.exited(exit(code, signal), cpu, peak_bytes).await;
            }
            Some(GuardianEvent::Gone { swept }) => {
                self.context.gone(swept, Vec::new()).await;
                return true;
            }
            None => {
                self.end_without_guardian().await;
                return true;
            }
        }
        false
    }

    /// The child has died with its guardian, by its parent-death signal; its descendants are found by their mark.
    async fn end_without_guardian(&mut self) {
        tracing::warn!(guardian = self.root, "a guardian was killed; ending its processes by their mark");
        let (mark, scratch) = (self.mark.clone(), std::mem::take(&mut self.scratch));
        let end = move || {
            let killed = mark.kill_bearers();
            scratch.remove();
            killed
        };
        let killed = blocking::run(end).await.unwrap_or_default();
        self.context.ended_by(ExitCause::GuardianLost);
        self.context.gone(killed.len() as u32, Vec::new()).await;
    }
}

fn letter(asked: OwnerRequest) -> u8 {
    match asked {
        OwnerRequest::Stop => message::STOP,
        OwnerRequest::Abandon => message::ABANDON,
        OwnerRequest::Kill => message::KILL,
    }
}

fn exit(code: Option<i32>, signal: Option<i32>) -> ChildExit {
    match (code, signal) {
        (Some(code), _) => ChildExit::Code(code),
        (_, Some(signal)) => ChildExit::Signal(signal),
        _ => ChildExit::Unknown,
    }
}
