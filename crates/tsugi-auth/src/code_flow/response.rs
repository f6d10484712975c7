//! What a browser brings back from an issuer, before any of it is believed.

use url::form_urlencoded;

/// The parameters of an authorization response that decide something (RFC 6749 §4.1.2, RFC 9207 §2), each at most once.
#[derive(Default)]
pub struct AuthorizationResponse {
    pub(super) code: Option<String>,
    pub(super) state: Option<String>,
    pub(super) issuer: Option<String>,
    pub(super) error: Option<String>,
}

/// What is wrong with an authorization response. Its own words are not shown: they may come from an attacker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ResponseDefect {
    #[error("it came to another address")]
    OtherAddress,
    #[error("a parameter occurs twice")]
    DuplicateParameter,
    #[error("`state` is missing or of another sign-in")]
    State,
    #[error("`iss` is missing though it was announced")]
    IssuerMissing,
    #[error("`iss` is another issuer")]
    IssuerDiffers,
    #[error("it has neither a code nor an error")]
    NoCode,
}

impl AuthorizationResponse {
    /// Reads the query of the redirect. A parameter that occurs twice is refused (RFC 6749 §3.1): two readers could see
    /// two different values.
    pub fn parse(query: &str) -> Result<Self, ResponseDefect> {
        let mut response = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let place = match &*name {
                "code" => &mut response.code,
                "state" => &mut response.state,
                "iss" => &mut response.issuer,
                "error" => &mut response.error,
                // Parameters that are not known are ignored (RFC 6749 §4.1.2).
                _ => continue,
            };
            if place.replace(value.into_owned()).is_some() {
                return Err(ResponseDefect::DuplicateParameter);
            }
        }
        Ok(response)
    }

    /// The error as the issuer names it, for the log.
    pub fn error_name(&self) -> Option<&str> {
        self.error.as_deref().filter(|name| is_error_name(name))
    }
}

/// Whether a text can be an error of OAuth. Anything else in its place is not written into a log.
pub(crate) fn is_error_name(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}
