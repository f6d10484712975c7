//! Signing in on another device (RFC 8628): a code is shown here and typed in there.

use std::time::Duration;

use serde::Deserialize;
use tsugi_auth::issuer_metadata::IssuerMetadata;
use tsugi_auth::scope::ScopeSet;
use tsugi_auth::secret::SecretText;
use tsugi_transport::guarded_fetch::GuardedFetch;
use url::Url;
use zeroize::Zeroizing;

use crate::client_auth::{self, ClientProof};
use crate::failure::OauthFailure;
use crate::token_endpoint::{EndpointAnswer, post};

/// The grant type of the requests that wait for the person.
pub const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
/// RFC 8628 §3.5: how much longer to wait after `slow_down`, and §3.2: how long where the issuer says nothing.
pub const SLOW_DOWN: Duration = Duration::from_secs(5);
const DEFAULT_INTERVAL: u64 = 5;
/// The longest time that is waited for a person, whatever the issuer says.
const MAX_LIFETIME: u64 = 1800;

/// What the person needs, and what we ask with.
pub struct DeviceCode {
    /// To be typed in.
    pub user_code: String,
    /// Where.
    pub verification: Url,
    /// The same address with the code in it.
    pub complete: Option<Url>,
    pub(crate) device_code: SecretText,
    pub(crate) interval: Duration,
    pub(crate) lifetime: Duration,
}

#[derive(Deserialize)]
struct DeviceAnswer {
    device_code: String,
    user_code: String,
    verification_uri: String,
    verification_uri_complete: Option<String>,
    expires_in: u64,
    interval: Option<u64>,
}

/// Asks for a code.
pub async fn request_code(
    fetch: &GuardedFetch,
    issuer: &IssuerMetadata,
    client: &ClientProof<'_>,
    scope: &ScopeSet,
    resource: Option<&str>,
) -> Result<DeviceCode, OauthFailure> {
    let endpoint = issuer.device_authorization.as_ref().ok_or(OauthFailure::NoEndpoint("device authorization"))?;
    let mut form = Vec::new();
    if !scope.is_empty() {
        form.push(("scope", Zeroizing::new(scope.to_string())));
    }
    form.extend(resource.map(|resource| ("resource", Zeroizing::new(resource.to_owned()))));
    let headers = client_auth::apply(client, &mut form)?;
    // The identifier is required here even where a header proves it.
    if !form.iter().any(|(name, _)| *name == "client_id") {
        form.push(("client_id", Zeroizing::new(client.client_id.to_owned())));
    }
    let answer = match post(fetch, endpoint.as_str(), &form, headers).await? {
        EndpointAnswer::Accepted(answer) => answer,
        EndpointAnswer::Refused(code, _) => return Err(OauthFailure::TokenRefused(code)),
    };
    let malformed = OauthFailure::TokenMalformed("it is not a device authorization");
    let answer: DeviceAnswer = answer.parse().map_err(|_| malformed.clone())?;
    // The code is shown to a person, so nothing that moves the cursor may be in it.
    if answer.user_code.is_empty() || !answer.user_code.bytes().all(|byte| matches!(byte, 0x20..=0x7e)) {
        return Err(malformed);
    }
    Ok(DeviceCode {
        user_code: answer.user_code,
        verification: page(&answer.verification_uri).ok_or(malformed)?,
        complete: answer.verification_uri_complete.as_deref().and_then(page),
        device_code: SecretText::new(answer.device_code),
        interval: Duration::from_secs(answer.interval.unwrap_or(DEFAULT_INTERVAL).clamp(1, 60)),
        lifetime: Duration::from_secs(answer.expires_in.min(MAX_LIFETIME)),
    })
}

/// An address that a person may visit: https, or http on this machine.
fn page(text: &str) -> Option<Url> {
    tsugi_auth::endpoint::parse_endpoint(text, tsugi_auth::endpoint::PlainHttp::LoopbackOnly)
}
