//! What checking a token costs: `cargo run --release -p tsugi-gateway --example token_cost`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement for people")]

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::HeaderValue;
use serde_json::json;
use tsugi_auth::endpoint::PlainHttp;
use tsugi_auth::jose::algorithm::SigningAlgorithm;
use tsugi_auth::scope::{ScopeImplications, ScopeSet};
use tsugi_auth::token::TokenRules;
use tsugi_gateway::guard::credential::{CredentialCheck, CredentialVerifier};
use tsugi_gateway::guard::oauth::document_fetch::{DocumentFailure, DocumentFetch, DocumentKind, FetchedDocument};
use tsugi_gateway::guard::oauth::issuer_keys::IssuerKeys;
use tsugi_gateway::guard::oauth::resource::ResourceDirectory;
use tsugi_gateway::guard::oauth::verifier::{AdminNeeds, CallerLimit, ClaimPointers, OAuthVerifier, TokenIssuer};
use tsugi_testkit::token_forge::{ForgeKey, key_set};

const ISSUER: &str = "https://login.example";
const PUBLIC: &str = "https://mcp.example";
const UNCACHED: usize = 2_000;
const CACHED: usize = 1_000_000;

/// An issuer without a network.
struct LocalIssuer(String);

impl DocumentFetch for LocalIssuer {
    fn get<'a>(&'a self, _: &'a str, kind: DocumentKind) -> BoxFuture<'a, Result<FetchedDocument, DocumentFailure>> {
        let body = match kind {
            DocumentKind::Metadata => json!({"issuer": ISSUER, "jwks_uri": format!("{ISSUER}/keys")}).to_string(),
            DocumentKind::KeySet => self.0.clone(),
        };
        std::future::ready(Ok(FetchedDocument { status: 200, body: body.into(), max_age: None })).boxed()
    }

    fn introspect<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        _: &'a HeaderValue,
    ) -> BoxFuture<'a, Result<FetchedDocument, DocumentFailure>> {
        std::future::ready(Err(DocumentFailure { status: None, reason: "not asked here".to_owned() })).boxed()
    }
}

fn verifier(key: &ForgeKey) -> OAuthVerifier {
    let fetch = Arc::new(LocalIssuer(key_set([key]).to_string()));
    let issuer = TokenIssuer {
        name: "corp".to_owned(),
        rules: TokenRules { issuer: ISSUER.to_owned(), algorithms: SigningAlgorithm::ALL.to_vec(), skew: 60 },
        audiences: Vec::new(),
        keys: Arc::new(IssuerKeys::new(ISSUER, PlainHttp::Refused, fetch)),
        claims: ClaimPointers::default(),
        roles: std::collections::BTreeMap::new(),
        permit: None,
        limit: CallerLimit::default(),
        quotas: Vec::new(),
        introspector: None,
    };
    let base = ScopeSet::parse("mcp");
    let resources = Arc::new(ResourceDirectory::new(PUBLIC, vec![ISSUER.to_owned()], base));
    OAuthVerifier::new(vec![issuer], resources, ScopeImplications::default(), AdminNeeds::default())
}

fn check(verifier: &OAuthVerifier, token: &str, parts: &http::request::Parts) {
    match verifier.verify(token, parts) {
        CredentialCheck::Ready(checked) => drop(checked.unwrap()),
        CredentialCheck::Pending(_) => panic!("the keys are known"),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let parts = |token: &str| {
        let request = http::Request::post("/mcp").header("authorization", format!("Bearer {token}"));
        request.body(()).unwrap().into_parts().0
    };
    let expires = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 3_600;
    for key in [ForgeKey::es256("k"), ForgeKey::rsa("k"), ForgeKey::ed25519("k")] {
        let tokens: Vec<String> = (0..UNCACHED)
            .map(|number| {
                key.token(&json!({
                    "iss": ISSUER, "aud": format!("{PUBLIC}/mcp"), "sub": format!("user{number}"), "client_id": "app",
                    "exp": expires, "iat": expires - 3_600, "jti": number, "scope": "mcp files.read files.write",
                }))
            })
            .collect();
        let verifier = verifier(&key);
        // Fetches the keys, so that the first token of the measurement does not.
        verifier.explain(&tokens[0], "/mcp").await.unwrap();
        let head = parts(&tokens[0]);
        let begun = Instant::now();
        tokens[1..].iter().for_each(|token| check(&verifier, token, &head));
        let uncached = begun.elapsed().as_nanos() / (UNCACHED - 1) as u128;
        let begun = Instant::now();
        (0..CACHED).for_each(|number| check(&verifier, &tokens[number % 64], &head));
        let cached = begun.elapsed().as_nanos() / CACHED as u128;
        println!("{}: {uncached} ns uncached, {cached} ns cached, {} bytes", key.algorithm(), tokens[0].len());
    }
}
