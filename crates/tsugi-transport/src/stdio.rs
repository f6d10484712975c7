//! Messages over the standard streams of a child process.

mod reader;
mod writer;

pub use reader::PipeReader;
pub use writer::PipeWriter;

use tsugi_process::{JobCommand, JobOptions, ProcessError, SupervisedJob};
use tsugi_protocol::answer::FaultReason;
use tsugi_protocol::codec::framing::FramingKind;

use crate::error::{TransportError, TransportErrorKind, chain};
use crate::link::{Inbox, Link, Outbox};
use reader::SharedFraming;

/// Starts the program and connects to its standard streams. The program runs when this returns;
/// whether it speaks MCP is for the handshake to find out. `framing` is how messages are sent to it until it has
/// shown how it sends its own.
pub async fn connect(command: JobCommand, options: JobOptions, framing: FramingKind) -> Result<Link, TransportError> {
    let (job, pipes) = SupervisedJob::spawn(command, options).await.map_err(spawn_error)?;
    let framing = SharedFraming::guess(framing);
    let writer = PipeWriter::spawn(pipes.stdin, framing.clone());
    let reader = PipeReader::new(pipes.stdout, framing);
    Ok(Link { outbox: Outbox::Pipe(writer), inbox: Inbox::Pipe(reader), job: Some(job) })
}

fn spawn_error(error: ProcessError) -> TransportError {
    let kind = TransportErrorKind::Spawn { may_pass: error.is_retryable() };
    TransportError::unsent(kind, chain(&error)).with_reason(spawn_reason(&error)).with_hint(error.hint())
}

fn spawn_reason(error: &ProcessError) -> Option<FaultReason> {
    Some(match error {
        ProcessError::NotFound { .. } => FaultReason::ProgramNotFound,
        ProcessError::NotExecutable { .. } => FaultReason::ProgramNotExecutable,
        ProcessError::NoInterpreter { .. } => FaultReason::InterpreterNotFound,
        ProcessError::NoSuchDirectory { .. } => FaultReason::WorkingDirectoryNotFound,
        ProcessError::SandboxDenies { .. } => FaultReason::SandboxDenied,
        ProcessError::Sandbox { .. } => FaultReason::SandboxUnavailable,
        ProcessError::Spawn { .. } if error.is_retryable() => FaultReason::OutOfResources,
        _ => return None,
    })
}
