//! What a browser brings back from the provider, before any of it is believed.

use url::form_urlencoded;

use super::LoginRefusal;

/// The parameters of an authorization response (RFC 6749 §4.1.2, RFC 9207 §2).
#[derive(Default)]
pub struct AuthorizationResponse {
    pub(super) code: Option<String>,
    pub(super) state: Option<String>,
    pub(super) issuer: Option<String>,
    pub(super) error: Option<String>,
}

impl AuthorizationResponse {
    /// The error as the provider names it, for the log.
    pub fn error_name(&self) -> Option<&str> {
        self.error.as_deref().filter(|name| is_error_name(name))
    }

    /// Reads the query of the redirect. A parameter that occurs twice is refused (RFC 6749 §3.1): two readers could see
    /// two different values.
    pub fn parse(query: &str) -> Result<Self, LoginRefusal> {
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
                return Err(LoginRefusal::RepeatedParameter);
            }
        }
        Ok(response)
    }
}

/// Whether a text can be an error of OAuth. Anything else in its place is not written into a log.
pub(super) fn is_error_name(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}
