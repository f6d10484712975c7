//! Tells an issuer that tokens are no longer used (RFC 7009).

use tsugi_auth::secret::SecretText;
use tsugi_transport::guarded_fetch::{FetchLimits, GuardedFetch};
use zeroize::Zeroizing;

use crate::client_auth::{self, ClientKey, ClientProof, SecretForm};
use crate::record::CredentialRecord;

/// Revokes the tokens of a record at its own issuer. `false` when the issuer offers no revocation or did not confirm it.
pub async fn revoke(fetch: &GuardedFetch, record: &CredentialRecord, key: Option<&ClientKey>) -> bool {
    let (Some(endpoint), Some(tokens)) = (&record.revocation_endpoint, &record.tokens) else { return false };
    let Some(refresh) = &tokens.refresh else {
        return revoke_one(fetch, record, key, endpoint, (&tokens.access, "access_token")).await;
    };
    let is_revoked = revoke_one(fetch, record, key, endpoint, (refresh, "refresh_token")).await;
    // The issuer should end the access tokens with it (RFC 7009 §2.1), but need not. One that cannot revoke them says so.
    revoke_one(fetch, record, key, endpoint, (&tokens.access, "access_token")).await;
    is_revoked
}

async fn revoke_one(
    fetch: &GuardedFetch,
    record: &CredentialRecord,
    key: Option<&ClientKey>,
    endpoint: &str,
    (token, hint): (&SecretText, &str),
) -> bool {
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
    let Ok(headers) = client_auth::apply(&client, &mut form) else { return false };
    let pairs: Vec<(&str, &str)> = form.iter().map(|(name, value)| (*name, value.as_str())).collect();
    match fetch.post_form(endpoint, &pairs, headers, FetchLimits::TOKEN).await {
        Ok(answer) => answer.status.is_success(),
        // Success has an empty body.
        Err(error) => error.status().is_some_and(|status| status.is_success()),
    }
}
