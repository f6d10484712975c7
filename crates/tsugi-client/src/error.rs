//! Failures of wires and processes as faults.

use tsugi_process::{ExitCause, ExitReport};
use tsugi_protocol::answer::{Blame, CallStage, Fault, FaultCode, FaultReason, ProcessEnd, SentState};
use tsugi_protocol::json::RawJson;
use tsugi_protocol::rpc::RpcError;
use tsugi_transport::{TransportError, TransportErrorKind};

/// How many lines of standard error a fault shows.
pub(crate) const STDERR_LINES: usize = 10;

/// A wire's failure while connecting.
pub(crate) fn connect_fault(error: &TransportError) -> Fault {
    let fault = match &error.kind {
        TransportErrorKind::Spawn { may_pass } => not_started(error, *may_pass),
        TransportErrorKind::Status { .. } if wants_sign_in(error) => {
            Fault::new(FaultCode::AuthRequired, &error.message)
        }
        TransportErrorKind::Status { status: 401 | 403, .. } => {
            Fault::new(FaultCode::PermissionDenied, &error.message).at(CallStage::Connect).retryable(false)
        }
        _ => Fault::new(FaultCode::ConnectionFailed, &error.message),
    };
    with_wire(fault, error)
}

/// A wire's failure during a call.
pub(crate) fn call_fault(error: &TransportError) -> Fault {
    let fault = match &error.kind {
        TransportErrorKind::Spawn { may_pass } => not_started(error, *may_pass),
        TransportErrorKind::Connect => Fault::new(FaultCode::ConnectionFailed, &error.message),
        TransportErrorKind::Lost => Fault::new(FaultCode::ConnectionLost, &error.message),
        TransportErrorKind::Congested => Fault::new(FaultCode::Overloaded, &error.message),
        TransportErrorKind::Protocol => Fault::new(FaultCode::InvalidResponse, &error.message),
        TransportErrorKind::TooLarge => Fault::new(FaultCode::InvalidResponse, &error.message),
        TransportErrorKind::Status { .. } if wants_sign_in(error) => {
            Fault::new(FaultCode::AuthRequired, &error.message).at(CallStage::Call)
        }
        TransportErrorKind::Status { status, .. } => {
            let mut fault = Fault::new(status_code(*status), &error.message).at(CallStage::Call);
            // Our own refusals of the same kind are ours; this one came from the server.
            if matches!(status, 429 | 503) {
                fault.blame = Blame::Upstream;
            }
            fault
        }
    };
    let sent = if error.may_be_sent { SentState::Unknown } else { SentState::NotSent };
    with_wire(fault.sent(sent_for(&error.kind, sent)), error)
}

/// Whether a sign-in would change the answer, or was to.
fn wants_sign_in(error: &TransportError) -> bool {
    let reasons =
        [FaultReason::OauthRequired, FaultReason::SignInEnded, FaultReason::SignInScope, FaultReason::SignInRefused];
    error.reason.is_some_and(|reason| reasons.contains(&reason))
}

/// A server's wish that we wait, in its own words. What the status says about waiting holds.
pub(crate) fn refused_fault(refusal: &TransportError, error: &RpcError) -> Fault {
    let mut fault = call_fault(refusal);
    fault.message = format!("{}: {}", fault.message, error.message());
    let outcome = error.data_object().and_then(|data| data.get_str("outcome").map(|outcome| outcome.into_owned()));
    // Another tsugi knows whether the call had reached its server.
    match outcome.as_deref() {
        Some("not_sent") => fault.sent = SentState::NotSent,
        Some("unknown") => fault.sent = SentState::Unknown,
        Some("failed") => fault.sent = SentState::Failed,
        _ => {}
    }
    fault.with_details(RawJson::from(error.details()))
}

fn not_started(error: &TransportError, may_pass: bool) -> Fault {
    Fault::new(FaultCode::ServerNotRunning, &error.message).at(CallStage::Spawn).retryable(may_pass)
}

/// What a status says about the effect of a call. An answer came, so the request was sent.
///
/// 401, 403, 413 and 415 are refusals before anything is done with a request
/// ([RFC 9110](https://www.rfc-editor.org/rfc/rfc9110#section-15.5)). 429 and 503 say so only with `Retry-After`: a server
/// that names a time has decided not to serve now, while a plain 503 is what proxies say of a server that died at work.
/// Every other status may have been sent after the effect: 404 and 405 as well as 500.
fn sent_for(kind: &TransportErrorKind, otherwise: SentState) -> SentState {
    match kind {
        TransportErrorKind::Status { status: 401 | 403 | 413 | 415, .. } => SentState::NotSent,
        TransportErrorKind::Status { status: 429 | 503, retry_after: Some(_) } => SentState::NotSent,
        TransportErrorKind::Status { .. } => SentState::Unknown,
        _ => otherwise,
    }
}

fn status_code(status: u16) -> FaultCode {
    match status {
        401 | 403 => FaultCode::PermissionDenied,
        413 => FaultCode::TooLarge,
        429 => FaultCode::RateLimitExceeded,
        503 => FaultCode::Overloaded,
        _ => FaultCode::ConnectionFailed,
    }
}

fn with_wire(mut fault: Fault, error: &TransportError) -> Fault {
    fault.hint = error.hint.clone();
    fault.reason = error.reason;
    if let TransportErrorKind::Status { retry_after: Some(after), .. } = &error.kind {
        fault.retry_after_ms = Some(after.as_millis() as u64);
    }
    fault
}

/// How a process ended, for a fault.
pub(crate) fn process_end(report: &ExitReport) -> ProcessEnd {
    let skip = report.stderr_tail.len().saturating_sub(STDERR_LINES);
    ProcessEnd { status: end_in_words(report), stderr: report.stderr_tail[skip..].to_vec() }
}

/// A signal alone does not say that it was the sandbox, nor what would help.
pub(crate) fn end_in_words(report: &ExitReport) -> String {
    let (what, key) = match report.cause {
        ExitCause::MemoryLimit => ("held more memory", "memory"),
        ExitCause::ProcessLimit => ("had more processes", "processes"),
        _ => return report.status.to_string(),
    };
    format!("{}, as it {what} than its sandbox allows; raise `{key}` of its `sandbox`", report.status)
}

#[cfg(test)]
mod process_tests {
    use std::time::Duration;

    use tsugi_process::ChildExit;

    use super::*;

    #[test]
    fn an_end_by_a_limit_names_the_setting_to_raise() {
        let status = |cause| {
            let report = ExitReport {
                status: ChildExit::Signal(9),
                cause,
                stderr_tail: Vec::new(),
                ran_for: Duration::ZERO,
                cpu: Duration::ZERO,
                peak_bytes: 0,
                swept: 0,
                survivors: Vec::new(),
            };
            process_end(&report).status
        };
        assert_eq!(status(ExitCause::Itself), "SIGKILL (signal 9)");
        assert!(status(ExitCause::MemoryLimit).contains("raise `memory`"));
        assert!(status(ExitCause::ProcessLimit).contains("raise `processes`"));
    }
}
