//! Sign-in at the dashboard from the settings: the providers, and how codes are redeemed.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use tsugi_auth::login::LoginClient;
use tsugi_auth::login::token_exchange::TokenExchange;
use tsugi_auth::secret::SecretText;
use tsugi_gateway::guard::oauth::document_fetch::{DocumentFailure, FetchedDocument};
use tsugi_gateway::guard::oauth::login::{
    LoginProvider, LoginService, ProviderMetadata, TokenEndpoint, return_address,
};
use tsugi_gateway::guard::oauth::verifier::OAuthVerifier;
use tsugi_gateway::guard::sign_in::SignInLimits;
use tsugi_transport::guarded_fetch::{FetchLimits, GuardedFetch};

use super::oauth::{IssuerFetch, fetch_of, plain_of};
use crate::config::settings::{CheckedSettings, IssuerSettings, SignInSettings};

/// The providers through which people sign in; `None` where no issuer has `signIn`.
pub(super) fn service(
    settings: &CheckedSettings,
    public_url: &str,
    verifier: Arc<OAuthVerifier>,
) -> Option<LoginService> {
    let issuers = settings.gateway.auth.oauth.issuers.iter();
    let offered = issuers.filter_map(|issuer| Some((issuer, issuer.sign_in.as_ref()?)));
    let providers: Vec<_> = offered
        .map(|(issuer, sign_in)| provider(issuer, sign_in, public_url, fetch_of(issuer, &settings.outbound)))
        .collect();
    (!providers.is_empty()).then(|| LoginService::new(verifier, providers, public_url))
}

fn provider(issuer: &IssuerSettings, sign_in: &SignInSettings, public_url: &str, fetch: GuardedFetch) -> LoginProvider {
    LoginProvider {
        issuer: issuer.name.clone(),
        label: sign_in.label.clone(),
        client: LoginClient {
            id: sign_in.client_id.clone(),
            secret: sign_in.client_secret.as_ref().map(|secret| SecretText::new(secret.expose())),
            redirect: return_address(public_url, &issuer.name),
            scopes: sign_in.scopes.clone(),
        },
        default_role: sign_in.default_role,
        limits: SignInLimits { idle: sign_in.idle_timeout, longest: sign_in.max_age },
        metadata: ProviderMetadata::new(
            issuer.issuer.as_str(),
            plain_of(issuer),
            Arc::new(IssuerFetch::new(fetch.clone())),
        ),
        endpoint: Arc::new(CodeRedeemer(fetch)),
    }
}

/// Sends codes to token endpoints through the outbound guard.
struct CodeRedeemer(GuardedFetch);

impl TokenEndpoint for CodeRedeemer {
    fn exchange<'a>(&'a self, request: &'a TokenExchange) -> BoxFuture<'a, Result<FetchedDocument, DocumentFailure>> {
        async move {
            let form: Vec<(&str, &str)> = request.form.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let mut headers = HeaderMap::new();
            if let Some(authorization) = &request.authorization {
                let mut value = HeaderValue::try_from(authorization.expose()).map_err(|_| unusable_secret())?;
                value.set_sensitive(true);
                headers.insert(AUTHORIZATION, value);
            }
            match self.0.post_form(&request.address, &form, headers, FetchLimits::TOKEN).await {
                Ok(fetched) => {
                    Ok(FetchedDocument { status: fetched.status.as_u16(), body: fetched.body, max_age: None })
                }
                Err(error) => Err(DocumentFailure {
                    status: error.status().map(|status| status.as_u16()),
                    reason: error.reason(),
                }),
            }
        }
        .boxed()
    }
}

fn unusable_secret() -> DocumentFailure {
    DocumentFailure { status: None, reason: "the client's secret cannot be sent in a header".to_owned() }
}
