//! Access tokens from outside: an issuer whose keys a test holds, forged tokens beside good ones, and the server's own
//! journal as the witness of what got through.

mod careless;
mod careless_doors;
mod introspection;
mod step_up;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::HeaderValue;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tsugi_auth::endpoint::PlainHttp;
use tsugi_auth::jose::algorithm::SigningAlgorithm;
use tsugi_auth::scope::{ScopeImplications, ScopeSet};
use tsugi_auth::secret::SecretText;
use tsugi_auth::token::TokenRules;
use tsugi_client::{ConnectTarget, Manager, ManagerOptions, ServerConfig};
use tsugi_gateway::guard::AccessGuard;
use tsugi_gateway::guard::api_key::{ApiKey, KeyRole};
use tsugi_gateway::guard::caller_access::ServerTenants;
use tsugi_gateway::guard::oauth::document_fetch::{DocumentFailure, DocumentFetch, DocumentKind, FetchedDocument};
use tsugi_gateway::guard::oauth::introspector::{IntrospectionMode, IntrospectionTerms, TokenIntrospector};
use tsugi_gateway::guard::oauth::issuer_keys::IssuerKeys;
use tsugi_gateway::guard::oauth::resource::ResourceDirectory;
use tsugi_gateway::guard::oauth::scope_rules::ScopeRules;
use tsugi_gateway::guard::oauth::verifier::{
    AdminNeeds, CallerLimit, ClaimPointers, OAuthVerifier, QuotaRule, TokenIssuer,
};
use tsugi_gateway::guard::proxy_trust::AddressRange;
use tsugi_gateway::guard::quota::CallQuota;
use tsugi_gateway::{Gateway, GatewayConfig, GatewayHandle, Hub, HubConfig};
use tsugi_protocol::answer::identity::TenantName;
use tsugi_protocol::answer::{Answer, Call, Reply};
use tsugi_protocol::mcp::Method;
use tsugi_testkit::token_forge::{ForgeKey, encode, key_set};

use crate::faults::{BASE, legacy_call, open_session, tool_call};
use crate::world::*;

const PUBLIC: &str = "https://mcp.example";
const ISSUER: &str = "https://login.example";
const OTHER_ISSUER: &str = "https://other.example/tenant";

/// What an issuer has on its site, and what was asked of it.
#[derive(Default)]
struct IssuerSite {
    documents: Mutex<HashMap<String, String>>,
    asked: Mutex<Vec<String>>,
    is_down: Mutex<bool>,
    /// What introspection answers, by token, and the tokens that it was asked about.
    answers: Mutex<HashMap<String, (u16, String)>>,
    introspected: Mutex<Vec<(String, String)>>,
}

impl IssuerSite {
    /// The site of an issuer with these keys.
    fn publish(&self, issuer: &str, keys: &[&ForgeKey]) {
        let (host, path) = match issuer.strip_prefix("https://").unwrap().split_once('/') {
            Some((host, path)) => (format!("https://{host}"), format!("/{path}")),
            None => (issuer.to_owned(), String::new()),
        };
        let endpoint = format!("{issuer}/introspect");
        let metadata =
            json!({"issuer": issuer, "jwks_uri": format!("{issuer}/keys"), "introspection_endpoint": endpoint});
        let mut documents = self.documents.lock();
        documents.insert(format!("{host}/.well-known/oauth-authorization-server{path}"), metadata.to_string());
        documents.insert(format!("{issuer}/keys"), key_set(keys.iter().copied()).to_string());
    }

    /// How often the keys of an issuer were fetched.
    fn key_fetches(&self, issuer: &str) -> usize {
        self.asked.lock().iter().filter(|address| **address == format!("{issuer}/keys")).count()
    }

    /// How often the issuer was asked about a token.
    fn questions(&self, token: &str) -> usize {
        self.introspected.lock().iter().filter(|(_, asked)| asked == token).count()
    }

    /// Lets introspection answer this about a token.
    fn answer(&self, token: &str, status: u16, answer: &Value) {
        self.answers.lock().insert(token.to_owned(), (status, answer.to_string()));
    }

    fn set_down(&self, is_down: bool) {
        *self.is_down.lock() = is_down;
    }
}

impl DocumentFetch for IssuerSite {
    fn get<'a>(&'a self, address: &'a str, _: DocumentKind) -> BoxFuture<'a, Result<FetchedDocument, DocumentFailure>> {
        self.asked.lock().push(address.to_owned());
        let found = self.documents.lock().get(address).cloned();
        let answer = match (*self.is_down.lock(), found) {
            (true, _) => Err(DocumentFailure { status: None, reason: "down".to_owned() }),
            (false, None) => Err(DocumentFailure { status: Some(404), reason: "not here".to_owned() }),
            (false, Some(body)) => Ok(FetchedDocument { status: 200, body: body.into(), max_age: None }),
        };
        // A real fetch takes its turn, too, so that requests can meet in it.
        async move {
            tokio::task::yield_now().await;
            answer
        }
        .boxed()
    }

    fn introspect<'a>(
        &'a self,
        address: &'a str,
        token: &'a str,
        authorization: &'a HeaderValue,
    ) -> BoxFuture<'a, Result<FetchedDocument, DocumentFailure>> {
        self.introspected.lock().push((address.to_owned(), token.to_owned()));
        assert!(authorization.is_sensitive(), "it must not be printed");
        let inactive = || (200, json!({"active": false}).to_string());
        let (status, body) = match authorization == "Basic Z2F0ZXdheTpzM2NyZXQ=" {
            true => self.answers.lock().get(token).cloned().unwrap_or_else(inactive),
            false => (401, json!({"error": "invalid_client"}).to_string()),
        };
        let answer = match *self.is_down.lock() {
            true => Err(DocumentFailure { status: None, reason: "down".to_owned() }),
            false => Ok(FetchedDocument { status, body: body.into(), max_age: None }),
        };
        async move {
            tokio::task::yield_now().await;
            answer
        }
        .boxed()
    }
}

/// The calls that reached a server: its name, the tool, and the caller.
type Journal = Arc<Mutex<Vec<(String, String, String)>>>;

fn server(name: &'static str, journal: Journal) -> Arc<dyn Answer> {
    script(move |call: Call| match call.method {
        Method::Discover => complete(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "scripted", "version": "1"}}
        })),
        Method::ToolsList => complete(json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "public", "tools": [
            {"name": "echo", "inputSchema": {"type": "object"}},
            {"name": "write", "inputSchema": {"type": "object"}}
        ]})),
        Method::ToolsCall => {
            let tool = call.subject().as_deref().unwrap_or_default().to_owned();
            journal.lock().push((name.to_owned(), tool, call.caller.identity().to_string()));
            match call.params.get("arguments").is_some_and(|arguments| arguments.as_str().contains("later")) {
                true => Reply::from_pending_reply(async {
                    tokio::task::yield_now().await;
                    complete(text("done"))
                }),
                false => complete(text("done")),
            }
        }
        ref method => {
            if matches!(method, Method::Other(_)) {
                journal.lock().push((name.to_owned(), method.to_string(), call.caller.identity().to_string()));
            }
            Reply::ready(tsugi_protocol::answer::Outcome::complete(json!({"resultType": "complete"}).into()))
        }
    })
}

struct OauthGateway {
    client: Client,
    site: Arc<IssuerSite>,
    key: ForgeKey,
    journal: Journal,
    _manager: Manager,
    handle: GatewayHandle,
}

/// What a test changes about its gateway.
#[derive(Default)]
struct Setup {
    keys: Vec<ApiKey>,
    base: &'static str,
    implies: Vec<(&'static str, &'static str)>,
    admin_needs: AdminNeeds,
    quota: Option<CallQuota>,
    is_down: bool,
    /// Whether this machine is a proxy that says where its clients are.
    is_proxied: bool,
    rules: Vec<(&'static str, &'static str)>,
    introspection: Option<IntrospectionMode>,
    tenants: Vec<(&'static str, &'static str)>,
}

/// How the issuer `corp` is asked about tokens. Answers are used for a moment only, so that a test need not wait.
fn introspector(mode: IntrospectionMode, rules: TokenRules, site: &Arc<IssuerSite>) -> Arc<TokenIntrospector> {
    let terms = IntrospectionTerms {
        mode,
        endpoint: None,
        client_id: "gateway".to_owned(),
        client_secret: SecretText::new("s3cret"),
        prefix: None,
        fresh: Duration::from_millis(200),
    };
    TokenIntrospector::new(terms, rules, PlainHttp::Refused, site.clone())
}

fn issuer(name: &str, issuer: &str, site: &Arc<IssuerSite>, quota: Option<CallQuota>) -> TokenIssuer {
    let rules = TokenRules { issuer: issuer.to_owned(), algorithms: SigningAlgorithm::ALL.to_vec(), skew: 60 };
    let roles = [("mcp-admins", KeyRole::Admin), ("mcp-viewers", KeyRole::Reader)];
    TokenIssuer {
        name: name.to_owned(),
        rules,
        audiences: vec!["api://listed".to_owned()],
        keys: Arc::new(IssuerKeys::new(issuer, PlainHttp::Refused, site.clone())),
        claims: ClaimPointers {
            roles: Some("/realm/roles".to_owned()),
            tenant: Some("/org".to_owned()),
            quota: Some("/plan".to_owned()),
        },
        roles: roles.map(|(name, role)| (name.to_owned(), role)).into_iter().collect::<BTreeMap<_, _>>(),
        permit: None,
        limit: CallerLimit { quota, max_in_flight: None },
        quotas: vec![QuotaRule {
            value: "gold".to_owned(),
            limit: CallerLimit { quota: Some(CallQuota::per_minute(3)), max_in_flight: None },
        }],
        introspector: None,
    }
}

impl OauthGateway {
    async fn new(setup: Setup) -> Self {
        let (site, key) = (Arc::new(IssuerSite::default()), ForgeKey::es256("k1"));
        site.publish(ISSUER, &[&key]);
        site.set_down(setup.is_down);
        let mut issuers = vec![issuer("corp", ISSUER, &site, setup.quota), issuer("other", OTHER_ISSUER, &site, None)];
        issuers[0].introspector = setup.introspection.map(|mode| introspector(mode, issuers[0].rules.clone(), &site));
        let names = vec![ISSUER.to_owned(), OTHER_ISSUER.to_owned()];
        let rules = ScopeRules::new(setup.rules.iter().map(|(pattern, scopes)| (*pattern, ScopeSet::parse(scopes))));
        let resources = ResourceDirectory::new(PUBLIC, names, ScopeSet::parse(setup.base)).with_rules(rules.unwrap());
        let resources = Arc::new(resources);
        let implies = setup.implies.iter().map(|(scope, list)| ((*scope).to_owned(), ScopeSet::parse(list)));
        let verifier =
            OAuthVerifier::new(issuers, resources.clone(), ScopeImplications::new(implies), setup.admin_needs);
        let loopback = || vec![AddressRange::parse("127.0.0.0/8").unwrap()];
        let trusted_proxies = setup.is_proxied.then(loopback).unwrap_or_default();
        let config = GatewayConfig { keys: setup.keys, trusted_proxies, ..GatewayConfig::on_free_port() };
        let guard = AccessGuard::new(&config).with_resources(resources).with_verifier(Arc::new(verifier));
        let manager = Manager::new(ManagerOptions::default());
        let journal = Journal::default();
        for name in ["up", "other"] {
            let target = ConnectTarget::InProcess(server(name, journal.clone()));
            manager.register(ServerConfig::new(name, target)).unwrap().ready(Duration::from_secs(60)).await.unwrap();
        }
        let tenants = setup.tenants.iter().map(|(server, tenant)| {
            ((*server).to_owned(), std::collections::BTreeSet::from([TenantName::new(*tenant)]))
        });
        let hub_config = HubConfig { tenants: ServerTenants::new(tenants), ..HubConfig::default() };
        let hub = Hub::new(manager.clone(), hub_config, Arc::new(guard));
        let handle = Gateway::serve(config, Arc::new(hub)).await.unwrap();
        Self { client: Client::of(&handle), site, key, journal, _manager: manager, handle }
    }

    /// A call of `up`'s tool at an address, with these headers.
    async fn call_with(&self, path: &str, headers: &[(&str, &str)]) -> Got {
        let tool = if path == "/mcp" { "up__echo" } else { "echo" };
        let message = tool_call(json!(1), tool, json!({}));
        let own = modern_headers(&message);
        let mut all: Vec<(&str, &str)> = own.iter().map(|(name, value)| (*name, value.as_str())).collect();
        all.extend_from_slice(headers);
        self.client.send("POST", path, &all, &message.to_string()).await
    }

    async fn call_at(&self, path: &str, token: &str) -> Got {
        self.call_with(path, &[("Authorization", &format!("Bearer {token}"))]).await
    }

    async fn call(&self, token: &str) -> Got {
        self.call_at("/mcp", token).await
    }

    /// How many calls reached the servers since the last time this was asked.
    fn reached(&self) -> usize {
        std::mem::take(&mut *self.journal.lock()).len()
    }

    /// The attack is refused and reaches no server; the good token beside it passes.
    async fn refuses(&self, token: &str, name: &str) -> Got {
        let refused = self.call(token).await;
        assert_eq!((refused.status, self.reached()), (401, 0), "{name}: {refused:?}");
        assert_eq!(self.call(&self.key.token(&claims())).await.status, 200, "beside {name}");
        assert_eq!(self.reached(), 1, "beside {name}");
        refused
    }

    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Got {
        self.client.send("GET", path, headers, "").await
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn claims() -> Value {
    json!({"iss": ISSUER, "aud": format!("{PUBLIC}/mcp"), "sub": "alice", "client_id": "app", "exp": now() + 600, "scope": "mcp"})
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

#[tokio::test]
async fn n01_forged_signatures_reach_no_server() {
    let world = OauthGateway::new(Setup::default()).await;
    let claims = claims();
    let unsigned = |alg: &str| format!("{}.{}.", encode(&json!({"alg": alg}).to_string()), encode(&claims.to_string()));
    world.refuses(&unsigned("none"), "alg none").await;
    world.refuses(&unsigned("None"), "alg None").await;
    let hs256 = world.key.sign(&json!({"alg": "HS256", "kid": "k1"}), &claims);
    world.refuses(&hs256, "HS256").await;
    let rs256 = world.key.sign(&json!({"alg": "RS256", "kid": "k1"}), &claims);
    world.refuses(&rs256, "RS256 with an EC key").await;
    let refused = world.refuses(&ForgeKey::es256("k1").token(&claims), "another key").await;
    let challenge = refused.header("www-authenticate").unwrap();
    assert!(challenge.contains("error=\"invalid_token\""), "{challenge}");
}

#[tokio::test]
async fn n02_a_token_causes_no_fetch_but_that_of_its_issuers_keys() {
    let world = OauthGateway::new(Setup::default()).await;
    let attacker = ForgeKey::es256("evil");
    world.site.publish(OTHER_ISSUER, &[&attacker]);
    world.site.documents.lock().insert("https://evil.example/keys".into(), key_set([&attacker]).to_string());
    let header = json!({"alg": "ES256", "kid": "evil", "jku": "https://evil.example/keys", "jwk": attacker.jwk()});
    world.refuses(&attacker.sign(&header, &claims()), "jku and jwk").await;
    world.refuses(&attacker.token(&claims()), "the key of another issuer").await;
    world
        .refuses(&attacker.token(&with("iss", json!("https://evil.example"))), "an issuer that is not configured")
        .await;
    let asked = world.site.asked.lock().clone();
    assert!(asked.iter().all(|address| address.starts_with(ISSUER)), "{asked:?}");
}

#[tokio::test]
async fn n03_a_token_for_one_address_does_not_open_another() {
    let world = OauthGateway::new(Setup::default()).await;
    let token = |aud: Value| world.key.token(&with("aud", aud));
    for (aud, path, status) in [
        (json!(PUBLIC), "/mcp", 200),
        (json!(format!("{PUBLIC}/")), "/mcp", 200),
        (json!("api://listed"), "/mcp", 200),
        (json!(["x", format!("{PUBLIC}/mcp")]), "/mcp", 200),
        (json!(format!("{PUBLIC}/servers/up/mcp")), "/servers/up/mcp", 200),
        (json!(PUBLIC), "/servers/up/mcp", 200),
        (json!(format!("{PUBLIC}/servers/up/mcp")), "/mcp", 401),
        (json!(format!("{PUBLIC}/servers/up/mcp")), "/servers/other/mcp", 401),
        (json!(format!("{PUBLIC}/mcp")), "/servers/up/mcp", 401),
        (json!(format!("{PUBLIC}/mc")), "/mcp", 401),
        (json!(format!("{PUBLIC}/mcp-evil")), "/mcp", 401),
        (json!("https://other.example"), "/mcp", 401),
        (json!([]), "/mcp", 401),
        (Value::Null, "/mcp", 401),
    ] {
        let got = world.call_at(path, &token(aud.clone())).await;
        assert_eq!((got.status, world.reached()), (status, usize::from(status == 200)), "{aud} at {path}: {got:?}");
    }
    // A token that was accepted at its own address is not accepted at another, though it is remembered.
    let narrow = token(json!(format!("{PUBLIC}/servers/up/mcp")));
    assert_eq!(world.call_at("/servers/up/mcp", &narrow).await.status, 200);
    assert_eq!(world.call_at("/mcp", &narrow).await.status, 401);
}

#[tokio::test]
async fn n04_n05_n06_n14_wrong_issuers_times_kinds_and_bindings_reach_no_server() {
    let world = OauthGateway::new(Setup::default()).await;
    for iss in ["https://login.example/", "https://LOGIN.example", "https://login.example:443"] {
        world.refuses(&world.key.token(&with("iss", json!(iss))), iss).await;
    }
    let expired = world.refuses(&world.key.token(&with("exp", json!(now() - 61))), "expired").await;
    assert!(expired.header("www-authenticate").unwrap().contains("expired"), "{expired:?}");
    assert_eq!(world.call(&world.key.token(&with("exp", json!(now() - 30)))).await.status, 200, "within the skew");
    world.reached();
    for (name, value) in [
        ("nbf", json!(now() + 120)),
        ("exp", json!("9999999999")),
        ("exp", json!(-1)),
        ("cnf", json!({"jkt": "x"})),
        ("at_hash", json!("x")),
        ("sub", json!("")),
    ] {
        world.refuses(&world.key.token(&with(name, value.clone())), &format!("{name} = {value}")).await;
    }
    for typ in ["dpop+jwt", "oauth-id-jag+jwt", "logout+jwt"] {
        world.refuses(&world.key.sign(&json!({"alg": "ES256", "kid": "k1", "typ": typ}), &claims()), typ).await;
    }
}

#[tokio::test]
async fn n07_credentials_in_two_places_or_in_the_address_are_refused() {
    let (secret, key) = ApiKey::generate("ann");
    let world = OauthGateway::new(Setup { keys: vec![key], ..Setup::default() }).await;
    let token = world.key.token(&claims());
    let bearer = format!("Bearer {token}");
    for headers in [
        vec![("Authorization", bearer.as_str()), ("Authorization", bearer.as_str())],
        vec![("Authorization", bearer.as_str()), ("X-Api-Key", secret.as_str())],
    ] {
        let got = world.call_with("/mcp", &headers).await;
        assert_eq!((got.status, world.reached()), (400, 0), "{got:?}");
        assert!(got.header("www-authenticate").unwrap().contains("error=\"invalid_request\""), "{got:?}");
    }
    let in_query = world.call_with(&format!("/mcp?access_token={token}"), &[]).await;
    assert_eq!((in_query.status, world.reached()), (400, 0), "{in_query:?}");
    for headers in [("Authorization", format!("Basic {token}")), ("X-Api-Key", token.clone())] {
        let got = world.call_with("/mcp", &[(headers.0, &headers.1)]).await;
        assert_eq!((got.status, world.reached()), (401, 0), "{got:?}");
    }
    assert_eq!(world.call(&token).await.status, 200);
    assert_eq!(world.call(&secret).await.status, 200, "keys go on working beside tokens");
}

#[tokio::test]
async fn n08_a_subject_cannot_spell_another_caller() {
    let (_, key) = ApiKey::generate("ann");
    let world = OauthGateway::new(Setup { keys: vec![key], ..Setup::default() }).await;
    let other = ForgeKey::es256("o1");
    world.site.publish(OTHER_ISSUER, &[&other]);
    for sub in ["local", "anonymous", "pm:agt_boss@pm", "ann", "key:ann", "subject:other:ann"] {
        assert_eq!(world.call(&world.key.token(&with("sub", json!(sub)))).await.status, 200);
        let mut foreign = with("sub", json!(sub));
        foreign["iss"] = json!(OTHER_ISSUER);
        assert_eq!(world.call(&other.token(&foreign)).await.status, 200);
    }
    let seen: Vec<String> = world.journal.lock().iter().map(|(_, _, caller)| caller.clone()).collect();
    assert!(
        seen.iter().all(|caller| caller.starts_with("subject:corp:") || caller.starts_with("subject:other:")),
        "{seen:?}"
    );
    let distinct: std::collections::BTreeSet<&String> = seen.iter().collect();
    assert_eq!(distinct.len(), seen.len(), "twelve callers, of whom no two are one: {seen:?}");
}

#[tokio::test]
async fn n10_a_session_is_not_there_for_another_subject() {
    let world = OauthGateway::new(Setup::default()).await;
    let (alice, bob) = (world.key.token(&claims()), world.key.token(&with("sub", json!("bob"))));
    let (alice, bob) = (format!("Bearer {alice}"), format!("Bearer {bob}"));
    let session = open_session(&world.client, "2025-11-25", &[("Authorization", &alice)]).await;
    let body = legacy_call(json!(1), "up__echo", json!({})).to_string();
    let call = async |bearer: &str| {
        let headers = [BASE[0], BASE[1], ("Authorization", bearer), ("Mcp-Session-Id", session.as_str())];
        world.client.send("POST", "/mcp", &headers, &body).await.status
    };
    assert_eq!((call(&bob).await, world.reached()), (404, 0));
    assert_eq!((call(&alice).await, world.reached()), (200, 1));
}

#[tokio::test]
async fn n11_a_rotated_key_is_used_at_once_and_invented_ids_cost_one_fetch() {
    let world = OauthGateway::new(Setup { is_proxied: true, ..Setup::default() }).await;
    assert_eq!(world.call(&world.key.token(&claims())).await.status, 200);
    assert_eq!(world.site.key_fetches(ISSUER), 1);
    let next = ForgeKey::es256("k2");
    world.site.publish(ISSUER, &[&world.key, &next]);
    // Many at once: the first one fetches, and the others wait for it.
    let tokens: Vec<String> = (0..20).map(|number| next.token(&with("sub", json!(format!("s{number}"))))).collect();
    let answers = futures_util::future::join_all(tokens.iter().map(|token| world.call(token))).await;
    assert!(answers.iter().all(|got| got.status == 200), "{answers:?}");
    assert_eq!(world.site.key_fetches(ISSUER), 2);
    // Each from another client of the proxy: one address alone is refused for its guesses after twenty of them.
    for number in 0..200 {
        let forged = format!("Bearer {}", ForgeKey::es256(&format!("x{number}")).token(&claims()));
        let address = format!("192.0.2.{number}");
        let got = world.call_with("/mcp", &[("Authorization", &forged), ("X-Forwarded-For", &address)]).await;
        assert_eq!(got.status, 401, "{got:?}");
    }
    assert_eq!(world.site.key_fetches(ISSUER), 2, "within thirty seconds of the last fetch for an unknown key");
    assert_eq!(world.call(&world.key.token(&claims())).await.status, 200);
}

#[tokio::test]
async fn n11_a_key_that_the_issuer_withdrew_opens_nothing() {
    let world = OauthGateway::new(Setup::default()).await;
    let token = world.key.token(&claims());
    assert_eq!(world.call(&token).await.status, 200);
    let next = ForgeKey::es256("k2");
    world.site.publish(ISSUER, &[&next]);
    // The new key makes the gateway fetch; from then on the token that it remembered is verified again, and fails.
    assert_eq!(world.call(&next.token(&claims())).await.status, 200);
    assert_eq!(world.call(&token).await.status, 401);
}

/// Some providers write no `kid`: authlib is one.
#[tokio::test]
async fn n11_a_rotation_is_noticed_by_tokens_that_name_no_key() {
    let unnamed = |key: &ForgeKey| key.sign(&json!({"alg": "ES256", "typ": "at+jwt"}), &claims());
    let world = OauthGateway::new(Setup::default()).await;
    let token = unnamed(&world.key);
    assert_eq!(world.call(&token).await.status, 200);
    let next = ForgeKey::es256("k2");
    world.site.publish(ISSUER, &[&next]);
    assert_eq!(world.call(&unnamed(&next)).await.status, 200);
    assert_eq!((world.call(&token).await.status, world.reached()), (401, 2));
    for _ in 0..10 {
        assert_eq!(world.call(&unnamed(&ForgeKey::es256("x"))).await.status, 401);
    }
    assert_eq!(world.site.key_fetches(ISSUER), 2, "forged ones cause no further fetch");
    assert_eq!(world.call(&unnamed(&next)).await.status, 200);
}

#[tokio::test]
async fn n12_a_gateway_starts_without_its_issuer_and_keys_go_on() {
    let (secret, key) = ApiKey::generate("ann");
    let world = OauthGateway::new(Setup { keys: vec![key], is_down: true, ..Setup::default() }).await;
    let token = world.key.token(&claims());
    let got = world.call(&token).await;
    assert_eq!((got.status, world.reached()), (503, 0), "{got:?}");
    assert!(got.header("retry-after").is_some(), "{got:?}");
    assert_eq!(world.call(&secret).await.status, 200);
    // Once there are keys, an issuer that is away is not noticed.
    world.site.set_down(false);
    until_async(async || world.call(&token).await.status == 200).await;
    world.site.set_down(true);
    assert_eq!(world.call(&world.key.token(&with("sub", json!("bob")))).await.status, 200);
}

/// Waits for a condition that takes a request to find out; fails after twenty seconds.
async fn until_async(mut condition: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waiting).await.expect("the condition holds in time");
}

#[tokio::test]
async fn n15_a_missing_base_scope_is_named_and_an_implied_one_counts() {
    let setup = Setup { base: "mcp files", implies: vec![("all", "files"), ("root", "all mcp")], ..Setup::default() };
    let world = OauthGateway::new(setup).await;
    for (scope, status) in
        [("mcp files", 200), ("mcp all", 200), ("root", 200), ("mcp", 403), ("", 403), ("mcpfiles", 403)]
    {
        let got = world.call(&world.key.token(&with("scope", json!(scope)))).await;
        assert_eq!((got.status, world.reached()), (status, usize::from(status == 200)), "{scope}: {got:?}");
        if status == 403 {
            let challenge = got.header("www-authenticate").unwrap();
            assert!(challenge.contains("error=\"insufficient_scope\""), "{challenge}");
            assert!(challenge.contains("scope=\"files mcp\""), "all scopes at once: {challenge}");
            assert_eq!(got.json()["error"]["data"]["details"]["error"], "insufficient_scope", "{got:?}");
        }
    }
}

#[tokio::test]
async fn n16_every_route_asks_for_a_credential() {
    let world = OauthGateway::new(Setup { base: "mcp", is_proxied: true, ..Setup::default() }).await;
    let narrow = format!("Bearer {}", world.key.token(&with("scope", json!("other"))));
    let metadata = "/.well-known/oauth-protected-resource";
    for (number, (verb, path, resource)) in [
        ("POST", "/mcp", "/mcp"),
        ("GET", "/mcp", "/mcp"),
        ("DELETE", "/mcp", "/mcp"),
        ("POST", "/servers/up/mcp", "/servers/up/mcp"),
        ("GET", "/sse", "/sse"),
        ("POST", "/messages", "/sse"),
        ("GET", "/ws", "/ws"),
        ("POST", "/rpc", "/rpc"),
        ("GET", "/mcp/tools", ""),
        ("POST", "/mcp/call", ""),
        ("GET", "/openapi.json", ""),
        ("GET", "/servers", ""),
        ("GET", "/metrics", ""),
    ]
    .into_iter()
    .enumerate()
    {
        // Each from another client of the proxy, so that none is refused for the number of its guesses.
        let address = format!("192.0.2.{number}");
        let from = ("X-Forwarded-For", address.as_str());
        let bare = world.client.send(verb, path, &[from], "{}").await;
        assert_eq!(bare.status, 401, "{verb} {path}: {bare:?}");
        let challenge = bare.header("www-authenticate").unwrap();
        assert_eq!(
            challenge,
            format!("Bearer scope=\"mcp\", resource_metadata=\"{PUBLIC}{metadata}{resource}\""),
            "{verb} {path}"
        );
        let bad = world.client.send(verb, path, &[from, ("Authorization", "Bearer eyJhIjox.e30.x")], "{}").await;
        assert_eq!(bad.status, 401, "{verb} {path}: {bad:?}");
        assert!(bad.header("www-authenticate").unwrap().contains("invalid_token"), "{verb} {path}: {bad:?}");
        let refused = world.client.send(verb, path, &[from, ("Authorization", &narrow)], "{}").await;
        assert!(matches!(refused.status, 401 | 403), "{verb} {path}: {refused:?}");
    }
    for path in ["/healthz", "/readyz"] {
        assert_eq!(world.get(path, &[]).await.status, 200, "{path}");
    }
    assert_eq!(world.reached(), 0);
}

#[tokio::test]
async fn n18_metadata_is_open_and_does_not_follow_the_host() {
    let world = OauthGateway::new(Setup { base: "mcp", ..Setup::default() }).await;
    for (path, resource) in [
        ("", PUBLIC.to_owned()),
        ("/mcp", format!("{PUBLIC}/mcp")),
        ("/sse", format!("{PUBLIC}/sse")),
        ("/ws", format!("{PUBLIC}/ws")),
        ("/rpc", format!("{PUBLIC}/rpc")),
        ("/servers/up/mcp", format!("{PUBLIC}/servers/up/mcp")),
    ] {
        let path = format!("/.well-known/oauth-protected-resource{path}");
        for headers in [
            vec![],
            vec![("Host", "evil.example")],
            vec![
                ("X-Forwarded-Host", "evil.example"),
                ("X-Forwarded-Proto", "http"),
                ("Forwarded", "host=evil.example"),
            ],
            vec![("Origin", "https://page.example")],
        ] {
            let got = world.get(&path, &headers).await;
            assert_eq!(got.status, 200, "{path} {headers:?}: {got:?}");
            assert_eq!(got.json()["resource"], resource);
            assert_eq!(got.json()["authorization_servers"], json!([ISSUER, OTHER_ISSUER]));
            assert_eq!(got.json()["scopes_supported"], json!(["mcp"]));
            assert_eq!(got.header("access-control-allow-origin"), Some("*"));
            assert_eq!(got.header("cache-control"), Some("max-age=300"));
        }
    }
    for nowhere in ["/servers/nowhere/mcp", "/other"] {
        let got = world.get(&format!("/.well-known/oauth-protected-resource{nowhere}"), &[]).await;
        assert_eq!(got.status, 404, "{got:?}");
    }
    assert_eq!(world.get("/.well-known/oauth-authorization-server", &[]).await.status, 404);
}

#[tokio::test]
async fn without_an_issuer_there_is_no_metadata() {
    let handle = serve(script(|_| complete(json!({"resultType": "complete"})))).await;
    for path in ["", "/mcp", "/servers/up/mcp"] {
        let path = format!("/.well-known/oauth-protected-resource{path}");
        assert_eq!(Client::of(&handle).send("GET", &path, &[], "").await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn roles_come_from_their_claim_and_administrators_need_what_is_asked_of_them() {
    let needs = AdminNeeds {
        acr: vec!["gold".to_owned()],
        amr: vec!["hwk".to_owned()],
        max_age: Some(Duration::from_secs(600)),
    };
    for (needs, extra, status) in [
        (AdminNeeds::default(), json!({}), 200),
        (needs.clone(), json!({"acr": "gold", "amr": ["pwd", "hwk"], "auth_time": now() - 60}), 200),
        (needs.clone(), json!({"acr": "gold", "amr": ["pwd"], "auth_time": now() - 60}), 403),
        (needs.clone(), json!({"acr": "silver", "amr": ["hwk"], "auth_time": now() - 60}), 403),
        (needs, json!({"acr": "gold", "amr": ["hwk"], "auth_time": now() - 6_000}), 403),
    ] {
        let world = OauthGateway::new(Setup { admin_needs: needs, ..Setup::default() }).await;
        let mut admin = with("aud", json!(PUBLIC));
        admin["realm"] = json!({"roles": ["x", "mcp-admins"]});
        for (name, value) in extra.as_object().unwrap() {
            admin[name] = value.clone();
        }
        let bearer = |claims: &Value| format!("Bearer {}", world.key.token(claims));
        let got = world.get("/servers", &[("Authorization", &bearer(&admin))]).await;
        assert_eq!(got.status, status, "{extra}: {got:?}");
        // A user has none of the roles, and a role in another claim is not one.
        let mut user = with("aud", json!(PUBLIC));
        user["roles"] = json!(["mcp-admins"]);
        user["role"] = json!("admin");
        assert_eq!(world.get("/servers", &[("Authorization", &bearer(&user))]).await.status, 403);
        user["realm"] = json!({"roles": "mcp-viewers"});
        let viewer = world.call(&world.key.token(&user)).await;
        assert_eq!((viewer.status, world.reached()), (403, 0), "{viewer:?}");
    }
}

#[tokio::test]
async fn a_quota_counts_all_tokens_of_one_caller_together() {
    let world = OauthGateway::new(Setup { quota: Some(CallQuota::per_minute(2)), ..Setup::default() }).await;
    let token = |jti: u32, sub: &str| {
        let mut claims = with("sub", json!(sub));
        claims["jti"] = json!(jti);
        world.key.token(&claims)
    };
    assert_eq!(world.call(&token(1, "alice")).await.status, 200);
    assert_eq!(world.call(&token(2, "alice")).await.status, 200);
    assert_eq!(world.call(&token(3, "alice")).await.status, 429);
    assert_eq!(world.call(&token(4, "bob")).await.status, 200);
}

#[tokio::test]
async fn a_stream_ends_when_its_token_does() {
    let world = OauthGateway::new(Setup::default()).await;
    // With the skew of 60 s it has two seconds left.
    let token = format!("Bearer {}", world.key.token(&with("exp", json!(now() - 58))));
    let headers = [("Accept", "text/event-stream"), ("Authorization", token.as_str())];
    let mut stream = Exchange::send(world.client.0, &world.client.request("GET", "/sse", &headers, "")).await;
    let opened = stream.read_until("\r\n\r\n").await;
    // Its audience is /mcp, so this one is refused; the next is for the stream.
    assert!(opened.starts_with("HTTP/1.1 401"), "{opened}");
    let mut own = with("exp", json!(now() - 58));
    own["aud"] = json!(format!("{PUBLIC}/sse"));
    let token = format!("Bearer {}", world.key.token(&own));
    let headers = [("Accept", "text/event-stream"), ("Authorization", token.as_str())];
    let mut stream = Exchange::send(world.client.0, &world.client.request("GET", "/sse", &headers, "")).await;
    stream.read_until("event: endpoint").await;
    stream.read_to_end().await;
    drop(world.handle);
}
