//! Tells an issuer that tokens are no longer used (RFC 7009).

use tsugi_transport::guarded_fetch::{FetchLimits, GuardedFetch};
use zeroize::Zeroizing;

use crate::client_auth::{ClientKey, ClientProof, SecretForm};
use crate::record::CredentialRecord;

/// Revokes the tokens of a record at its own issuer. `false` when the issuer offers no revocation or did not confirm it.
pub async fn revoke(fetch: &GuardedFetch, record: &CredentialRecord, key: Option<&ClientKey>) -> bool {
    let (Some(endpoint), Some(tokens)) = (&record.revocation_endpoint, &record.tokens) else { return false };
    // Revoking the refresh token ends the access tokens that came of it.
    let (token, hint) = match &tokens.refresh {
        Some(refresh) => (refresh, "refresh_token"),
        None => (&tokens.access, "access_token"),
    };
    let mut form: SecretForm = vec![
        ("token", Zeroizing::new(token.expose().to_owned())),
        ("token_type_hint", Zeroizing::new(hint.to_owned())),
    ];
    let client = ClientProof {
        client_id: &record.client.id,
        method: record.client.method,
        secret: record.client.secret.as_ref(),
        key,
        issuer: &record.issuer,
    };
    let Ok(headers) = client.apply(&mut form, crate::now()) else { return false };
    let pairs: Vec<(&str, &str)> = form.iter().map(|(name, value)| (*name, value.as_str())).collect();
    match fetch.post_form(endpoint, &pairs, headers, FetchLimits::TOKEN).await {
        Ok(answer) => answer.status.is_success(),
        // Success has an empty body.
        Err(error) => error.status().is_some_and(|status| status.is_success()),
    }
}
