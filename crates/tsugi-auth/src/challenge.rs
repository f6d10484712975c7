//! `WWW-Authenticate`: the challenges that we send (RFC 6750 §3, RFC 9728 §5.1) and those that servers send us.

mod parser;

use std::fmt;

pub use parser::{AuthChallenge, ChallengeProblem, parse_challenges};

use crate::scope::ScopeSet;

/// What a bearer challenge says is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChallengeError {
    InvalidRequest,
    InvalidToken,
    InsufficientScope,
}

/// A challenge for a bearer token. Its text is the value of the header.
#[derive(Debug, Clone, Copy)]
pub struct BearerChallenge<'a> {
    /// `None` when the request had no credentials: RFC 6750 §3.1 wants no error then.
    pub error: Option<ChallengeError>,
    pub description: Option<&'a str>,
    pub scope: Option<&'a ScopeSet>,
    pub resource_metadata: &'a str,
}

impl ChallengeError {
    pub fn code(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::InvalidToken => "invalid_token",
            Self::InsufficientScope => "insufficient_scope",
        }
    }
}

impl fmt::Display for BearerChallenge<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Bearer ")?;
        if let Some(error) = self.error {
            write!(formatter, "error=\"{}\", ", error.code())?;
        }
        if let Some(description) = self.description {
            write!(formatter, "error_description={}, ", QuotedText(description))?;
        }
        if let Some(scope) = self.scope.filter(|scope| !scope.is_empty()) {
            write!(formatter, "scope=\"{scope}\", ")?;
        }
        write!(formatter, "resource_metadata={}", QuotedText(self.resource_metadata))
    }
}

/// A text as a quoted string of RFC 9110 §5.6.4. What cannot stand in a header becomes a space.
struct QuotedText<'a>(&'a str);

impl fmt::Display for QuotedText<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("\"")?;
        for character in self.0.chars() {
            match character {
                '"' | '\\' => write!(formatter, "\\{character}")?,
                ' '..='~' => write!(formatter, "{character}")?,
                _ => formatter.write_str(" ")?,
            }
        }
        formatter.write_str("\"")
    }
}

#[cfg(test)]
mod tests {
    use super::{BearerChallenge, ChallengeError, parse_challenges};
    use crate::scope::ScopeSet;

    const METADATA: &str = "https://mcp.example/.well-known/oauth-protected-resource/mcp";

    #[test]
    fn a_challenge_without_credentials_has_no_error() {
        let scope = ScopeSet::parse("mcp");
        let challenge =
            BearerChallenge { error: None, description: None, scope: Some(&scope), resource_metadata: METADATA };
        assert_eq!(challenge.to_string(), format!("Bearer scope=\"mcp\", resource_metadata=\"{METADATA}\""));
    }

    #[test]
    fn what_we_write_is_what_we_read() {
        let scope = ScopeSet::parse("files.write mcp");
        let challenge = BearerChallenge {
            error: Some(ChallengeError::InsufficientScope),
            description: Some("say \"please\" \\ \r\n twice"),
            scope: Some(&scope),
            resource_metadata: METADATA,
        };
        let read = parse_challenges(&challenge.to_string()).unwrap();
        assert_eq!(read.len(), 1);
        assert!(read[0].is_scheme("bearer"));
        assert_eq!(read[0].parameter("error"), Some("insufficient_scope"));
        assert_eq!(read[0].parameter("error_description"), Some("say \"please\" \\    twice"));
        assert_eq!(read[0].parameter("SCOPE"), Some("files.write mcp"));
        assert_eq!(read[0].parameter("resource_metadata"), Some(METADATA));
    }
}
