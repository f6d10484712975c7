//! Gets tokens by the grant that is configured, and new ones for old.

use std::sync::Arc;
use std::time::Instant;

use http::StatusCode;
use tsugi_auth::challenge::AuthChallenge;
use tsugi_auth::issuer_metadata::IssuerMetadata;
use tsugi_auth::scope::ScopeSet;

use super::options::{EnterpriseLogin, GrantChoice, SignInWay};
use super::{FRESH, OauthCredential, discover};
use crate::assertion::AssertionSource;
use crate::authorization::{AuthorizationRequest, AuthorizationTerms};
use crate::browser::{DeviceDisplay, SignInBrowser};
use crate::client_auth::{ClientAuthMethod, ClientProof};
use crate::device::{self, DEVICE_GRANT, SLOW_DOWN};
use crate::discovery::{DiscoveredIssuer, issuer_metadata};
use crate::dpop::DpopKey;
use crate::failure::OauthFailure;
use crate::grant::{self, ExchangeSubject, GrantTerms, ID_JAG_TYPE, ID_TOKEN_TYPE};
use crate::record::{ClientRegistration, CredentialRecord, RegistrationOrigin, TokenSet};
use crate::registration::{RegistrationPurpose, client_for};
use crate::scope_choice::{ScopeSources, choose_scopes};
use crate::token_endpoint::{TokenErrorCode, TokenRequest};

/// What one attempt has found out so far.
struct SignInPlan {
    found: DiscoveredIssuer,
    scope: ScopeSet,
    dpop: Option<DpopKey>,
    /// A client that this same issuer registered before.
    known: Option<ClientRegistration>,
}

impl OauthCredential {
    /// Gets tokens after a refusal: by refreshing where that can help, else by the configured grant.
    pub(super) async fn obtain(
        &self,
        known: Option<Arc<CredentialRecord>>,
        status: StatusCode,
        challenge: Option<&AuthChallenge>,
    ) -> Result<(), OauthFailure> {
        let asked = asked_scope(challenge);
        let ended = match &known {
            Some(_) => OauthFailure::SignInEnded,
            None => OauthFailure::NeedsSignIn,
        };
        if self.is_elsewhere() {
            if status == StatusCode::FORBIDDEN {
                return Err(OauthFailure::NeedsScope(asked.unwrap_or_default()));
            }
            // Nothing can be done here, so no one is asked: a sign-in that is missing costs no requests.
            if known.as_ref().and_then(|record| record.tokens.as_ref()?.refresh.as_ref()).is_none() {
                return Err(ended);
            }
        }
        // The metadata is read again every time: the server may have changed its issuer.
        let found = discover(&self.fetch, &self.options.discovery, challenge).await?;
        let known = self.of_issuer(known, &found.issuer)?;
        if status == StatusCode::UNAUTHORIZED && self.refresh_first(known.clone()).await? {
            return Ok(());
        }
        if self.is_elsewhere() {
            return Err(ended);
        }
        self.state.lock().attempts.count(asked.as_ref().unwrap_or(&ScopeSet::default()), Instant::now())?;
        self.obtain_by_grant(found, known, challenge).await
    }

    /// Gets tokens by the configured grant, whatever there is.
    pub(super) async fn obtain_anew(
        &self,
        known: Option<Arc<CredentialRecord>>,
        challenge: Option<&AuthChallenge>,
    ) -> Result<(), OauthFailure> {
        let found = discover(&self.fetch, &self.options.discovery, challenge).await?;
        let known = self.of_issuer(known, &found.issuer)?;
        self.obtain_by_grant(found, known, challenge).await
    }

    /// Whether the issuer can be found, and offers what a sign-in needs.
    pub(super) async fn examine_issuer(&self, challenge: Option<&AuthChallenge>) -> Result<(), OauthFailure> {
        let found = discover(&self.fetch, &self.options.discovery, challenge).await?;
        let issuer = &found.issuer;
        let has_document =
            self.options.client.document.is_some() && issuer.features.client_id_metadata_document_supported;
        if self.options.client.configured.is_none() && !has_document && issuer.registration.is_none() {
            return Err(OauthFailure::NoClient);
        }
        let terms = AuthorizationTerms {
            client_id: "",
            redirect: "",
            scope: &ScopeSet::default(),
            resource: None,
            assume_pkce: self.options.quirks.assume_pkce,
        };
        token_endpoint(issuer)?;
        AuthorizationRequest::new(issuer, &terms).map(drop)
    }

    async fn obtain_by_grant(
        &self,
        found: DiscoveredIssuer,
        known: Option<Arc<CredentialRecord>>,
        challenge: Option<&AuthChallenge>,
    ) -> Result<(), OauthFailure> {
        let asked = asked_scope(challenge);
        let scope = choose_scopes(&ScopeSources {
            challenge: asked.as_ref(),
            resource: &found.resource_scopes,
            issuer: &found.issuer.features.scopes_supported,
            before: known.as_ref().map(|record| &record.requested),
            configured: self.options.scopes.as_ref(),
            wants_refresh: self.options.grant.is_sign_in(),
        });
        let dpop = match wants_dpop(challenge, &found.issuer) {
            true => Some(DpopKey::generate()?),
            false => None,
        };
        let known = known.as_ref().map(|record| copy(&record.client));
        let plan = SignInPlan { found, scope, dpop, known };
        let (client, tokens) = self.run_grant(&plan).await?;
        self.keep(plan, client, tokens).await
    }

    /// The earlier record, if it is of this issuer. What another issuer gave is not used: neither client nor token.
    fn of_issuer(
        &self,
        known: Option<Arc<CredentialRecord>>,
        issuer: &IssuerMetadata,
    ) -> Result<Option<Arc<CredentialRecord>>, OauthFailure> {
        match known {
            Some(record) if record.issuer == issuer.issuer => Ok(Some(record)),
            // A configured client without an issuer belongs to the one that it was used with.
            Some(record) if record.client.origin == RegistrationOrigin::Configured => {
                let is_bound = self.options.client.configured.as_ref().is_some_and(|client| client.issuer.is_some());
                if is_bound { Ok(None) } else { Err(OauthFailure::ClientOfOtherIssuer) }
            }
            _ => Ok(None),
        }
    }

    /// Tries the refresh token of a record whose access token was refused. `false` when a new sign-in is needed.
    async fn refresh_first(&self, known: Option<Arc<CredentialRecord>>) -> Result<bool, OauthFailure> {
        let is_fresh = self.state.lock().obtained.is_some_and(|at| at.elapsed() < FRESH);
        let has_refresh = known.as_ref().and_then(|record| record.tokens.as_ref()?.refresh.as_ref()).is_some();
        if is_fresh || !has_refresh {
            return Ok(false);
        }
        let generation = known.map_or(0, |record| record.generation);
        self.finish(move |own| async move { own.refresh_under_lock(generation).await }).await
    }

    async fn refresh_under_lock(&self, generation: u64) -> Result<bool, OauthFailure> {
        let _lock = self.lock().await?;
        if self.catch_up(generation).await? {
            return Ok(true);
        }
        let Some(record) = self.read().await? else { return Ok(false) };
        match self.renew_record(record).await {
            Ok(()) => Ok(true),
            Err(failure) if failure.is_transient() => Err(failure),
            Err(_) => Ok(false),
        }
    }

    /// Replaces the tokens of a record that was read under the lock.
    pub(super) async fn renew_record(&self, record: CredentialRecord) -> Result<(), OauthFailure> {
        let generation = record.generation;
        let renewed = match &self.options.grant {
            GrantChoice::SignIn(_) => self.refresh(&record).await,
            _ => self.request_tokens(&record, &record.requested, None).await,
        };
        match renewed {
            Ok(mut tokens) => {
                let before = record.tokens;
                // A missing refresh token means that the old one stays (RFC 6749 §6).
                if tokens.refresh.is_none() {
                    tokens.refresh = before.and_then(|before| before.refresh);
                }
                self.save(CredentialRecord { tokens: Some(tokens), ..record }, generation).await
            }
            Err(failure) if failure.is_transient() => Err(failure),
            // The record was read under the lock, so no other process has a newer token: the sign-in is over.
            Err(failure) => {
                self.save(CredentialRecord { tokens: None, ..record }, generation).await?;
                tracing::warn!(server = %self.options.key.server, %failure, "a sign-in has ended");
                Err(OauthFailure::SignInEnded)
            }
        }
    }

    async fn refresh(&self, record: &CredentialRecord) -> Result<TokenSet, OauthFailure> {
        let tokens = record.tokens.as_ref().ok_or(OauthFailure::NeedsSignIn)?;
        let token = tokens.refresh.as_ref().ok_or(OauthFailure::NeedsSignIn)?;
        let key = tokens.dpop_key.as_ref().map(|key| DpopKey::from_document(key.clone())).transpose()?;
        let request = TokenRequest {
            endpoint: &record.token_endpoint,
            form: grant::refresh_token(token, self.resource(&record.resource)),
            client: self.proof(&record.client, &record.issuer),
            dpop: key.as_ref(),
        };
        request.send(&self.fetch).await
    }

    async fn run_grant(&self, plan: &SignInPlan) -> Result<(ClientRegistration, TokenSet), OauthFailure> {
        match &self.options.grant {
            GrantChoice::SignIn(SignInWay::Elsewhere) => Err(OauthFailure::NeedsSignIn),
            GrantChoice::SignIn(SignInWay::Browser(browser)) => self.with_browser(plan, browser.as_ref()).await,
            GrantChoice::SignIn(SignInWay::Device(display)) => self.with_device(plan, display.as_ref()).await,
            _ => {
                // These grants belong to a client that the provider knows already.
                if self.options.client.configured.is_none() {
                    return Err(OauthFailure::NoClient);
                }
                let purpose = RegistrationPurpose { redirect: None, grant_types: &[] };
                let client = client_for(&self.fetch, &self.options.client, &plan.found.issuer, None, purpose).await?;
                let record = self.record(plan, client, None)?;
                let tokens = self.request_tokens(&record, &plan.scope, plan.dpop.as_ref()).await?;
                Ok((record.client, tokens))
            }
        }
    }

    async fn with_browser(
        &self,
        plan: &SignInPlan,
        browser: &dyn SignInBrowser,
    ) -> Result<(ClientRegistration, TokenSet), OauthFailure> {
        let issuer = &plan.found.issuer;
        let window = browser.prepare().await?;
        let redirect = window.redirect_uri().to_owned();
        let purpose =
            RegistrationPurpose { redirect: Some(&redirect), grant_types: &["authorization_code", "refresh_token"] };
        let known = plan.known.as_ref().map(copy);
        let client = client_for(&self.fetch, &self.options.client, issuer, known, purpose).await?;
        let resource = self.resource(&plan.found.resource);
        let terms = AuthorizationTerms {
            client_id: &client.id,
            redirect: &redirect,
            scope: &plan.scope,
            resource,
            assume_pkce: self.options.quirks.assume_pkce,
        };
        let request = AuthorizationRequest::new(issuer, &terms)?;
        let redirected = window.visit(request.url.clone()).await?;
        let code = request.accept(&redirected)?;
        let exchange = TokenRequest {
            endpoint: token_endpoint(issuer)?,
            form: grant::authorization_code(&code, resource),
            client: self.proof(&client, &issuer.issuer),
            dpop: plan.dpop.as_ref(),
        };
        let tokens = exchange.send(&self.fetch).await?;
        Ok((client, tokens))
    }

    async fn with_device(
        &self,
        plan: &SignInPlan,
        display: &dyn DeviceDisplay,
    ) -> Result<(ClientRegistration, TokenSet), OauthFailure> {
        let issuer = &plan.found.issuer;
        let purpose = RegistrationPurpose { redirect: None, grant_types: &[DEVICE_GRANT, "refresh_token"] };
        let known = plan.known.as_ref().map(copy);
        let client = client_for(&self.fetch, &self.options.client, issuer, known, purpose).await?;
        let resource = self.resource(&plan.found.resource);
        let proof = self.proof(&client, &issuer.issuer);
        let code = device::request_code(&self.fetch, issuer, &proof, &plan.scope, resource).await?;
        display.show(&code);
        let end = tokio::time::Instant::now() + code.lifetime;
        let mut pause = code.interval;
        while tokio::time::Instant::now() + pause < end {
            tokio::time::sleep(pause).await;
            let request = TokenRequest {
                endpoint: token_endpoint(issuer)?,
                form: grant::device_code(&code.device_code, resource),
                client: self.proof(&client, &issuer.issuer),
                dpop: plan.dpop.as_ref(),
            };
            match request.send(&self.fetch).await {
                Err(OauthFailure::TokenRefused(TokenErrorCode::AuthorizationPending)) => {}
                // RFC 8628 §3.5: after trouble on the way the pauses grow too.
                Err(OauthFailure::TokenRefused(TokenErrorCode::SlowDown) | OauthFailure::TokenUnreachable) => {
                    pause += SLOW_DOWN;
                }
                answered => return Ok((client, answered?)),
            }
        }
        Err(OauthFailure::SignInAborted("the code has expired"))
    }

    /// Tokens by a grant without people.
    async fn request_tokens(
        &self,
        record: &CredentialRecord,
        scope: &ScopeSet,
        dpop: Option<&DpopKey>,
    ) -> Result<TokenSet, OauthFailure> {
        let terms = GrantTerms { resource: self.resource(&record.resource), scope: Some(scope) };
        let form = match &self.options.grant {
            GrantChoice::Workload(source) => grant::jwt_bearer(&source.assertion().await?, terms),
            GrantChoice::Enterprise(login) => {
                let assertion = self.exchange_identity(login, record, terms).await?;
                grant::jwt_bearer(&assertion, terms)
            }
            _ => grant::client_credentials(terms),
        };
        let request = TokenRequest {
            endpoint: &record.token_endpoint,
            form,
            client: self.proof(&record.client, &record.issuer),
            dpop,
        };
        request.send(&self.fetch).await
    }

    /// Asks the organization's identity provider for an assertion that the server's issuer accepts.
    async fn exchange_identity(
        &self,
        login: &EnterpriseLogin,
        record: &CredentialRecord,
        terms: GrantTerms<'_>,
    ) -> Result<tsugi_auth::secret::SecretText, OauthFailure> {
        let provider = issuer_metadata(&self.fetch, &login.issuer, self.options.discovery.plain).await?;
        let token = AssertionSource::assertion(login.subject.as_ref()).await?;
        let subject = ExchangeSubject {
            token: &token,
            token_type: ID_TOKEN_TYPE,
            requested_type: ID_JAG_TYPE,
            audience: Some(&record.issuer),
        };
        // The provider needs the resource whatever the other issuer makes of it.
        let terms = GrantTerms { resource: Some(&record.resource), ..terms };
        let methods = &provider.features.token_endpoint_auth_methods_supported;
        let method = match login.client_secret {
            Some(_) => ClientAuthMethod::for_secret(methods),
            None => ClientAuthMethod::Public,
        };
        let request = TokenRequest {
            endpoint: token_endpoint(&provider)?,
            form: grant::token_exchange(&subject, terms),
            client: ClientProof {
                client_id: &login.client_id,
                method,
                secret: login.client_secret.as_ref(),
                key: None,
                issuer: &provider.issuer,
            },
            dpop: None,
        };
        let issued = request.send_exchange(&self.fetch).await?;
        match issued.kind.as_deref() {
            Some(ID_JAG_TYPE) => Ok(issued.token),
            _ => Err(OauthFailure::TokenMalformed("`issued_token_type` is not what was asked for")),
        }
    }

    async fn keep(&self, plan: SignInPlan, client: ClientRegistration, tokens: TokenSet) -> Result<(), OauthFailure> {
        let record = self.record(&plan, client, Some(tokens))?;
        let _lock = self.lock().await?;
        let before = self.read().await?.map_or(0, |stored| stored.generation);
        self.save(record, before).await
    }

    fn record(
        &self,
        plan: &SignInPlan,
        client: ClientRegistration,
        tokens: Option<TokenSet>,
    ) -> Result<CredentialRecord, OauthFailure> {
        let issuer = &plan.found.issuer;
        Ok(CredentialRecord {
            generation: 0,
            issuer: issuer.issuer.clone(),
            resource: plan.found.resource.clone(),
            token_endpoint: token_endpoint(issuer)?.to_owned(),
            revocation_endpoint: issuer.revocation.as_ref().map(|url| url.as_str().to_owned()),
            client,
            requested: plan.scope.clone(),
            tokens,
        })
    }

    fn proof<'a>(&'a self, client: &'a ClientRegistration, issuer: &'a str) -> ClientProof<'a> {
        ClientProof {
            client_id: &client.id,
            method: client.method,
            secret: client.secret.as_ref(),
            key: self.client_key(),
            issuer,
        }
    }

    fn resource<'a>(&self, resource: &'a str) -> Option<&'a str> {
        (!self.options.quirks.no_resource).then_some(resource)
    }
}

/// The scopes that a challenge names.
fn asked_scope(challenge: Option<&AuthChallenge>) -> Option<ScopeSet> {
    challenge.and_then(|challenge| challenge.parameter("scope")).map(ScopeSet::parse)
}

/// A token is bound to a key where the server asks for that and its issuer can do it.
fn wants_dpop(challenge: Option<&AuthChallenge>, issuer: &IssuerMetadata) -> bool {
    let asks = challenge.is_some_and(|challenge| challenge.is_scheme("DPoP"));
    asks && issuer.features.dpop_signing_alg_values_supported.iter().any(|name| name == "ES256")
}

fn token_endpoint(issuer: &IssuerMetadata) -> Result<&str, OauthFailure> {
    issuer.token.as_ref().map(url::Url::as_str).ok_or(OauthFailure::NoEndpoint("token"))
}

fn copy(client: &ClientRegistration) -> ClientRegistration {
    ClientRegistration {
        id: client.id.clone(),
        secret: client.secret.as_ref().map(|secret| tsugi_auth::secret::SecretText::new(secret.expose())),
        secret_expires: client.secret_expires,
        method: client.method,
        origin: client.origin,
        redirect: client.redirect.clone(),
    }
}
