//! Why a request was refused before a face parsed it.

use std::borrow::Cow;
use std::time::Duration;

use http::StatusCode;
use tsugi_protocol::answer::{DecidingRule, Fault, FaultCode};

use super::oauth::resource::ChallengeReason;

/// The status and error of a refused request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRefusal {
    pub status: StatusCode,
    pub code: FaultCode,
    pub message: Cow<'static, str>,
    /// When to come back.
    pub retry_after: Option<Duration>,
    /// True when a credential was wrong, which counts against the address that it came from.
    pub is_guess: bool,
    /// The rule that decided, for the log. Refusals that are logged where they are made, with more, have none here.
    pub rule: Option<&'static str>,
    /// The rule of a policy that decided.
    pub policy: Option<DecidingRule>,
    /// What the challenge says is wrong with the credentials; without one the request had none.
    pub challenge: Option<Box<ChallengeReason>>,
}

impl HttpRefusal {
    /// A refusal with this status.
    pub fn new(status: StatusCode, code: FaultCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            retry_after: None,
            is_guess: false,
            rule: None,
            policy: None,
            challenge: None,
        }
    }

    /// There is no server of this name.
    pub fn no_server(name: &str) -> Self {
        let fault = tsugi_client::not_found::server(name);
        Self::new(StatusCode::NOT_FOUND, fault.code, fault.message)
    }

    /// Not from here, or not to this name.
    pub fn forbidden(message: &'static str) -> Self {
        Self::new(StatusCode::FORBIDDEN, FaultCode::PermissionDenied, message)
    }

    /// The caller is not known.
    pub fn unauthorized(message: &'static str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, FaultCode::PermissionDenied, message)
    }

    /// A credential that is not known, forged or of another place. Expired ones were right once and are not meant.
    pub fn wrong_credential(message: &'static str) -> Self {
        Self { is_guess: true, ..Self::unauthorized(message) }
    }

    /// Because of this rule.
    pub fn by(mut self, rule: &'static str) -> Self {
        self.rule = Some(rule);
        self
    }

    /// Because of this rule of a policy.
    pub fn by_policy(mut self, policy: DecidingRule) -> Self {
        self.rule = Some("policy");
        self.policy = Some(policy);
        self
    }

    /// With a challenge that says what is wrong.
    pub fn with_challenge(mut self, reason: ChallengeReason) -> Self {
        self.challenge = Some(Box::new(reason));
        self
    }

    /// The request itself is wrong.
    pub fn bad_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, FaultCode::InvalidRequest, message)
    }

    /// Come back after this time.
    pub fn retry_after(mut self, time: Duration) -> Self {
        self.retry_after = Some(time);
        self
    }

    /// The refusal as a fault.
    pub fn to_fault(&self) -> Fault {
        let mut fault = Fault::new(self.code, self.message.as_ref());
        fault.retry_after_ms = self.retry_after.map(|time| time.as_millis() as u64);
        fault
    }
}
