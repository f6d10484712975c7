//! As which client we speak to an issuer: configured, by metadata document, or registered now (RFC 7591).

use bytes::Bytes;
use http::HeaderMap;
use serde::Deserialize;
use serde_json::json;
use tsugi_auth::endpoint::is_loopback;
use tsugi_auth::issuer_metadata::IssuerMetadata;
use tsugi_auth::secret::SecretText;
use tsugi_transport::guarded_fetch::{FetchLimits, GuardedFetch};
use url::Url;

use crate::client_auth::{ClientAuthMethod, ClientKey};
use crate::failure::OauthFailure;
use crate::record::{ClientRegistration, RegistrationOrigin};
use crate::token_endpoint::{EndpointAnswer, TokenErrorCode, judge};

/// A client that was registered by hand.
pub struct ConfiguredClient {
    pub id: String,
    pub secret: Option<SecretText>,
    pub key: Option<ClientKey>,
    /// The issuer that knows it. Without one it belongs to the first issuer that it is used with.
    pub issuer: Option<String>,
}

/// Who we can be.
pub struct ClientChoice {
    pub configured: Option<ConfiguredClient>,
    /// The address of our metadata document, which is our identifier where the issuer supports that.
    pub document: Option<String>,
    /// The name that people see when they are asked for consent.
    pub name: String,
}

/// What a registration is for.
#[derive(Debug, Clone, Copy)]
pub struct RegistrationPurpose<'a> {
    /// Where people come back to; `None` for grants without a browser.
    pub redirect: Option<&'a str>,
    pub grant_types: &'a [&'a str],
}

/// The client for an issuer. `known` is the client of an earlier sign-in with this same issuer.
pub async fn client_for(
    fetch: &GuardedFetch,
    choice: &ClientChoice,
    issuer: &IssuerMetadata,
    known: Option<ClientRegistration>,
    purpose: RegistrationPurpose<'_>,
) -> Result<ClientRegistration, OauthFailure> {
    if let Some(configured) = &choice.configured {
        return configured_client(configured, issuer);
    }
    if let Some(address) = choice.document.as_ref().filter(|_| issuer.features.client_id_metadata_document_supported) {
        return Ok(ClientRegistration {
            id: address.clone(),
            secret: None,
            secret_expires: None,
            method: ClientAuthMethod::Public,
            origin: RegistrationOrigin::Document,
            redirect: None,
        });
    }
    let is_usable = |client: &ClientRegistration| {
        let is_current = client.secret_expires.is_none_or(|end| end > crate::now());
        client.origin == RegistrationOrigin::Dynamic && client.redirect.as_deref() == purpose.redirect && is_current
    };
    match known.filter(is_usable) {
        Some(client) => Ok(client),
        None => register(fetch, choice, issuer, purpose).await,
    }
}

fn configured_client(
    configured: &ConfiguredClient,
    issuer: &IssuerMetadata,
) -> Result<ClientRegistration, OauthFailure> {
    if configured.issuer.as_ref().is_some_and(|bound| *bound != issuer.issuer) {
        return Err(OauthFailure::ClientOfOtherIssuer);
    }
    let method = match (&configured.key, &configured.secret) {
        (Some(_), _) => ClientAuthMethod::PrivateKeyJwt,
        (None, Some(_)) => ClientAuthMethod::for_secret(&issuer.features.token_endpoint_auth_methods_supported),
        (None, None) => ClientAuthMethod::Public,
    };
    Ok(ClientRegistration {
        id: configured.id.clone(),
        secret: configured.secret.as_ref().map(|secret| SecretText::new(secret.expose())),
        secret_expires: None,
        method,
        origin: RegistrationOrigin::Configured,
        redirect: None,
    })
}

#[derive(Deserialize)]
struct RegistrationAnswer {
    client_id: String,
    client_secret: Option<String>,
    /// RFC 7591 §3.2.1: 0 means never.
    client_secret_expires_at: Option<u64>,
    token_endpoint_auth_method: Option<String>,
}

async fn register(
    fetch: &GuardedFetch,
    choice: &ClientChoice,
    issuer: &IssuerMetadata,
    purpose: RegistrationPurpose<'_>,
) -> Result<ClientRegistration, OauthFailure> {
    let endpoint = issuer.registration.as_ref().ok_or(OauthFailure::NoClient)?;
    let is_local = purpose.redirect.is_none_or(|uri| Url::parse(uri).is_ok_and(|url| is_loopback(&url)));
    let (first, second) = if is_local { ("native", "web") } else { ("web", "native") };
    match request(fetch, choice, issuer, endpoint, purpose, first).await {
        // Providers differ in which kind of application may have which redirect address.
        Err(OauthFailure::NotRegistered(TokenErrorCode::InvalidRedirectUri)) => {
            request(fetch, choice, issuer, endpoint, purpose, second).await
        }
        answered => answered,
    }
}

async fn request(
    fetch: &GuardedFetch,
    choice: &ClientChoice,
    issuer: &IssuerMetadata,
    endpoint: &Url,
    purpose: RegistrationPurpose<'_>,
    application: &str,
) -> Result<ClientRegistration, OauthFailure> {
    let wanted = wanted_method(&issuer.features.token_endpoint_auth_methods_supported);
    let mut body = json!({
        "client_name": choice.name,
        "application_type": application,
        "grant_types": purpose.grant_types,
    });
    if let Some(redirect) = purpose.redirect {
        body["redirect_uris"] = json!([redirect]);
        body["response_types"] = json!(["code"]);
    }
    if let Some(method) = wanted {
        body["token_endpoint_auth_method"] = json!(method.name());
    }
    let answer =
        fetch.post_json(endpoint.as_str(), Bytes::from(body.to_string()), HeaderMap::new(), FetchLimits::TOKEN).await;
    let answer = match judge(answer.map_err(|_| OauthFailure::TokenUnreachable)?)? {
        EndpointAnswer::Accepted(answer) => answer,
        EndpointAnswer::Refused(code, _) => return Err(OauthFailure::NotRegistered(code)),
    };
    let answer: RegistrationAnswer =
        answer.parse().map_err(|_| OauthFailure::TokenMalformed("it is not a registration"))?;
    let secret = answer.client_secret.filter(|secret| !secret.is_empty());
    // What the issuer registered counts, then what we asked for.
    let method = match answer.token_endpoint_auth_method.as_deref().map(ClientAuthMethod::parse) {
        Some(Some(method)) => method,
        Some(None) => return Err(OauthFailure::TokenMalformed("`token_endpoint_auth_method` is not known")),
        None => wanted.unwrap_or(match secret {
            Some(_) => ClientAuthMethod::SecretBasic,
            None => ClientAuthMethod::Public,
        }),
    };
    Ok(ClientRegistration {
        id: answer.client_id,
        secret: secret.map(SecretText::new),
        secret_expires: answer.client_secret_expires_at.filter(|end| *end > 0),
        method,
        origin: RegistrationOrigin::Dynamic,
        redirect: purpose.redirect.map(str::to_owned),
    })
}

/// The method to ask for: none at all where the issuer takes that, since a secret of ours would be one more to keep.
fn wanted_method(supported: &[String]) -> Option<ClientAuthMethod> {
    [ClientAuthMethod::Public, ClientAuthMethod::SecretBasic, ClientAuthMethod::SecretPost]
        .into_iter()
        .find(|method| supported.iter().any(|name| name == method.name()))
}
