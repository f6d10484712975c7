//! How a client proves at the token endpoint who it is, as headers and form of a request.

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
pub use tsugi_auth::client_auth::{ClientAuthMethod, ClientKey, ClientProof, SecretForm};
use tsugi_auth::jose::signer::SignerProblem;

use crate::failure::OauthFailure;

/// Adds the proof to a form, or to the headers that it is sent with.
pub(crate) fn apply(proof: &ClientProof<'_>, form: &mut SecretForm) -> Result<HeaderMap, OauthFailure> {
    let authorization = proof.prove(form, crate::now(), &crate::random_text()?).map_err(|problem| match problem {
        SignerProblem::NoKey => OauthFailure::NoClientSecret,
        _ => OauthFailure::NotSigned,
    })?;
    let mut headers = HeaderMap::new();
    if let Some(text) = authorization {
        let mut value = HeaderValue::from_str(text.expose()).map_err(|_| OauthFailure::NoClientSecret)?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}
