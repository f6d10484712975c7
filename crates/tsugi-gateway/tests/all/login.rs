//! Sign-in at the dashboard through a provider, seen from outside: a provider whose answers a test can forge, a browser's
//! cookies by hand, and what the provider was asked as the witness.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use tsugi_auth::endpoint::PlainHttp;
use tsugi_auth::jose::algorithm::SigningAlgorithm;
use tsugi_auth::login::LoginClient;
use tsugi_auth::login::token_exchange::TokenExchange;
use tsugi_auth::scope::{ScopeImplications, ScopeSet};
use tsugi_auth::secret::SecretText;
use tsugi_auth::token::TokenRules;
use tsugi_client::{ConnectTarget, Manager, ManagerOptions, ServerConfig};
use tsugi_gateway::guard::AccessGuard;
use tsugi_gateway::guard::api_key::{ApiKey, KeyRole};
use tsugi_gateway::guard::oauth::document_fetch::{DocumentFailure, DocumentFetch, DocumentKind, FetchedDocument};
use tsugi_gateway::guard::oauth::issuer_keys::IssuerKeys;
use tsugi_gateway::guard::oauth::login::{
    LoginProvider, LoginService, ProviderMetadata, TokenEndpoint, return_address,
};
use tsugi_gateway::guard::oauth::resource::ResourceDirectory;
use tsugi_gateway::guard::oauth::verifier::{AdminNeeds, CallerLimit, ClaimPointers, OAuthVerifier, TokenIssuer};
use tsugi_gateway::guard::sign_in::SignInLimits;
use tsugi_gateway::{Gateway, GatewayConfig, GatewayHandle, Hub, HubConfig};
use tsugi_protocol::mcp::Method;
use tsugi_testkit::token_forge::{ForgeKey, encode, key_set};
use url::Url;

use crate::world::*;

const PUBLIC: &str = "https://mcp.example";
const ISSUER: &str = "https://login.example";
const CLIENT: &str = "dashboard";
const SECRET: &str = "a:secret/of the client";
const HOST: (&str, &str) = ("Host", "mcp.example");

/// What the provider remembers of a person whom it has signed in.
struct IssuedCode {
    nonce: String,
    challenge: String,
    redirect: String,
}

/// Makes an ID token of claims that are right.
type TokenWriter = Box<dyn Fn(&ForgeKey, Value) -> String + Send + Sync>;

/// An OpenID provider.
struct TestProvider {
    key: ForgeKey,
    metadata: Mutex<Value>,
    codes: Mutex<HashMap<String, IssuedCode>>,
    groups: Mutex<Value>,
    writer: Mutex<TokenWriter>,
    /// Codes that were sent to the token endpoint, good or not.
    exchanged: Mutex<Vec<String>>,
    metadata_fetches: Mutex<usize>,
    is_down: Mutex<bool>,
}

impl TestProvider {
    fn new() -> Arc<Self> {
        let metadata = json!({
            "issuer": ISSUER, "jwks_uri": format!("{ISSUER}/keys"),
            "authorization_endpoint": format!("{ISSUER}/authorize?tenant=1"), "token_endpoint": format!("{ISSUER}/token"),
            "end_session_endpoint": format!("{ISSUER}/logout"), "authorization_response_iss_parameter_supported": true,
        });
        Arc::new(Self {
            key: ForgeKey::es256("k1"),
            metadata: Mutex::new(metadata),
            codes: Mutex::default(),
            groups: Mutex::new(json!(["mcp-admins"])),
            writer: Mutex::new(Box::new(good_token)),
            exchanged: Mutex::default(),
            metadata_fetches: Mutex::default(),
            is_down: Mutex::default(),
        })
    }

    /// Signs a person in whose browser came with this address, and gives the parameters of the way back.
    fn sign_in(&self, address: &str) -> BTreeMap<String, String> {
        let asked: BTreeMap<String, String> = Url::parse(address).unwrap().query_pairs().into_owned().collect();
        assert_eq!((asked["response_type"].as_str(), asked["client_id"].as_str()), ("code", CLIENT));
        assert_eq!((asked["code_challenge_method"].as_str(), asked["scope"].as_str()), ("S256", "openid groups"));
        assert_eq!(asked["tenant"], "1", "the endpoint's own query stays");
        let mut codes = self.codes.lock();
        let code = format!("code-{}", codes.len() + self.exchanged.lock().len());
        let issued = IssuedCode {
            nonce: asked["nonce"].clone(),
            challenge: asked["code_challenge"].clone(),
            redirect: asked["redirect_uri"].clone(),
        };
        codes.insert(code.clone(), issued);
        let answer = [("code", code), ("state", asked["state"].clone()), ("iss", ISSUER.to_owned())];
        answer.map(|(name, value)| (name.to_owned(), value)).into()
    }

    /// The token endpoint: every code once, with the verifier, redirect and client that it was issued for.
    fn token(&self, request: &TokenExchange) -> (u16, Value) {
        let form: HashMap<&str, &str> = request.form.iter().map(|(name, value)| (*name, value.as_str())).collect();
        self.exchanged.lock().push(form["code"].to_owned());
        let refused = (400, json!({"error": "invalid_grant"}));
        let basic = BASE64_STANDARD.encode(format!("{CLIENT}:a%3Asecret%2Fof+the+client"));
        assert_eq!(request.authorization.as_ref().unwrap().expose(), format!("Basic {basic}"));
        let Some(issued) = self.codes.lock().remove(form["code"]) else { return refused };
        let challenge = BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, form["code_verifier"].as_bytes()));
        if challenge != issued.challenge || form["redirect_uri"] != issued.redirect {
            return refused;
        }
        let claims = json!({
            "iss": ISSUER, "aud": CLIENT, "sub": "alice", "iat": now(), "exp": now() + 300, "nonce": issued.nonce,
            "groups": *self.groups.lock(), "at_hash": "x",
        });
        (200, json!({"access_token": "a", "token_type": "Bearer", "id_token": (self.writer.lock())(&self.key, claims)}))
    }

    fn write_tokens_by(&self, writer: impl Fn(&ForgeKey, Value) -> String + Send + Sync + 'static) {
        *self.writer.lock() = Box::new(writer);
    }
}

fn good_token(key: &ForgeKey, claims: Value) -> String {
    key.sign(&json!({"alg": key.algorithm(), "kid": key.id()}), &claims)
}

impl DocumentFetch for TestProvider {
    fn get<'a>(
        &'a self,
        address: &'a str,
        kind: DocumentKind,
    ) -> BoxFuture<'a, Result<FetchedDocument, DocumentFailure>> {
        let body = match address.strip_prefix(ISSUER) {
            Some("/.well-known/openid-configuration") => Some(self.metadata.lock().to_string()),
            Some("/keys") => Some(key_set([&self.key]).to_string()),
            _ => None,
        };
        *self.metadata_fetches.lock() += usize::from(kind == DocumentKind::Metadata);
        let answer = match (*self.is_down.lock(), body) {
            (true, _) => Err(DocumentFailure { status: None, reason: "down".to_owned() }),
            (false, None) => Err(DocumentFailure { status: Some(404), reason: "not here".to_owned() }),
            (false, Some(body)) => Ok(FetchedDocument { status: 200, body: body.into(), max_age: None }),
        };
        std::future::ready(answer).boxed()
    }
}

impl TokenEndpoint for TestProvider {
    fn exchange<'a>(&'a self, request: &'a TokenExchange) -> BoxFuture<'a, Result<FetchedDocument, DocumentFailure>> {
        assert_eq!(request.address, format!("{ISSUER}/token"));
        let (status, body) = self.token(request);
        std::future::ready(Ok(FetchedDocument { status, body: body.to_string().into(), max_age: None })).boxed()
    }
}

const EVIL: &str = "https://evil.example";

/// A provider that an attacker runs: it signs nobody in and keeps the codes that it is sent.
#[derive(Default)]
struct EvilProvider {
    codes: Mutex<Vec<String>>,
}

impl DocumentFetch for EvilProvider {
    fn get<'a>(&'a self, _: &'a str, _: DocumentKind) -> BoxFuture<'a, Result<FetchedDocument, DocumentFailure>> {
        let body = json!({
            "issuer": EVIL, "jwks_uri": format!("{EVIL}/keys"),
            "authorization_endpoint": format!("{EVIL}/authorize"), "token_endpoint": format!("{EVIL}/token"),
        });
        std::future::ready(Ok(FetchedDocument { status: 200, body: body.to_string().into(), max_age: None })).boxed()
    }
}

impl TokenEndpoint for EvilProvider {
    fn exchange<'a>(&'a self, request: &'a TokenExchange) -> BoxFuture<'a, Result<FetchedDocument, DocumentFailure>> {
        let code = request.form.iter().find(|(name, _)| *name == "code").unwrap().1.to_string();
        self.codes.lock().push(code);
        std::future::ready(Ok(FetchedDocument { status: 400, body: "{}".into(), max_age: None })).boxed()
    }
}

/// What a test changes about its gateway.
struct Setup {
    public: &'static str,
    default_role: Option<KeyRole>,
    limits: SignInLimits,
    keys: Vec<ApiKey>,
    /// Another provider, which an attacker runs.
    second: Option<Arc<EvilProvider>>,
}

impl Default for Setup {
    fn default() -> Self {
        let limits = SignInLimits { idle: Duration::from_secs(600), longest: Duration::from_secs(3600) };
        Self { public: PUBLIC, default_role: None, limits, keys: Vec::new(), second: None }
    }
}

struct LoginGateway {
    client: Client,
    provider: Arc<TestProvider>,
    _manager: Manager,
    _handle: GatewayHandle,
}

/// One browser: the cookies that it keeps for the gateway.
#[derive(Default, Clone)]
struct Browser(BTreeMap<String, String>);

impl Browser {
    fn cookie(&self) -> String {
        self.0.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ")
    }

    fn keep(&mut self, got: &Got) {
        for (_, line) in got.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie")) {
            let (name, value) = line.split(';').next().unwrap().split_once('=').unwrap();
            match line.contains("Max-Age=0") {
                true => self.0.remove(name),
                false => self.0.insert(name.to_owned(), value.to_owned()),
            };
        }
    }

    fn session(&self) -> Option<&String> {
        self.0.get("__Host-tsugi_session")
    }
}

impl LoginGateway {
    async fn new() -> Self {
        Self::with(Setup::default()).await
    }

    async fn with(setup: Setup) -> Self {
        let provider = TestProvider::new();
        let roles = [("mcp-admins", KeyRole::Admin), ("mcp-viewers", KeyRole::Reader)];
        let issuer = |name: &str, issuer: &str, fetch: Arc<dyn DocumentFetch>| TokenIssuer {
            name: name.to_owned(),
            rules: TokenRules { issuer: issuer.to_owned(), algorithms: SigningAlgorithm::ALL.to_vec(), skew: 60 },
            audiences: vec!["trusted".to_owned()],
            keys: Arc::new(IssuerKeys::new(issuer, PlainHttp::Refused, fetch)),
            claims: ClaimPointers { roles: Some("/groups".to_owned()), ..ClaimPointers::default() },
            roles: roles.map(|(name, role)| (name.to_owned(), role)).into_iter().collect(),
            permit: None,
            limit: CallerLimit::default(),
            quotas: Vec::new(),
            introspector: None,
        };
        let mut issuers = vec![issuer("corp", ISSUER, provider.clone())];
        issuers.extend(setup.second.clone().map(|evil| issuer("evil", EVIL, evil)));
        let resources = Arc::new(ResourceDirectory::new(setup.public, vec![ISSUER.to_owned()], ScopeSet::default()));
        let implies = ScopeImplications::new(std::iter::empty());
        let verifier = Arc::new(OAuthVerifier::new(issuers, resources.clone(), implies, AdminNeeds::default()));
        let login = |name: &str, metadata: ProviderMetadata, endpoint: Arc<dyn TokenEndpoint>| LoginProvider {
            issuer: name.to_owned(),
            label: "Corp & Co".to_owned(),
            client: LoginClient {
                id: CLIENT.to_owned(),
                secret: Some(SecretText::new(SECRET)),
                redirect: return_address(setup.public, name),
                scopes: vec!["openid".to_owned(), "groups".to_owned()],
            },
            default_role: setup.default_role,
            limits: setup.limits,
            metadata,
            endpoint,
        };
        let metadata = ProviderMetadata::new(ISSUER, PlainHttp::Refused, provider.clone());
        let mut logins = vec![login("corp", metadata, provider.clone())];
        logins.extend(
            setup
                .second
                .clone()
                .map(|evil| login("evil", ProviderMetadata::new(EVIL, PlainHttp::Refused, evil.clone()), evil.clone())),
        );
        let config = GatewayConfig {
            keys: setup.keys,
            allowed_hosts: vec!["mcp.example".to_owned()],
            public_url: setup.public.parse().ok(),
            ..GatewayConfig::on_free_port()
        };
        let guard = AccessGuard::new(&config).with_resources(resources).with_verifier(verifier.clone());
        let guard = guard.with_logins(LoginService::new(verifier, logins, setup.public));
        let manager = Manager::new(ManagerOptions::default());
        let server = script(|call| match call.method {
            Method::Discover => complete(json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "scripted", "version": "1"}}
            })),
            Method::ToolsList => listed("tools", json!([{"name": "echo", "inputSchema": {"type": "object"}}])),
            _ => complete(text("done")),
        });
        let server = ServerConfig::new("up", ConnectTarget::InProcess(server));
        manager.register(server).unwrap().ready(Duration::from_secs(60)).await.unwrap();
        let hub = Hub::new(manager.clone(), HubConfig::default(), Arc::new(guard));
        let handle = Gateway::serve(config, Arc::new(hub)).await.unwrap();
        Self { client: Client::of(&handle), provider, _manager: manager, _handle: handle }
    }

    async fn send(&self, browser: &Browser, verb: &str, path: &str, headers: &[(&str, &str)]) -> Got {
        let cookie = browser.cookie();
        let mut all = vec![HOST];
        if !cookie.is_empty() {
            all.push(("Cookie", &cookie));
        }
        all.extend_from_slice(headers);
        self.client.send(verb, path, &all, "").await
    }

    async fn get(&self, browser: &Browser, path: &str) -> Got {
        self.send(browser, "GET", path, &[]).await
    }

    /// Begins a sign-in: the address at the provider.
    async fn begin(&self, browser: &mut Browser, query: &str) -> String {
        let got = self.get(browser, &format!("/auth/login/corp{query}")).await;
        assert_eq!(got.status, 303, "{got:?}");
        browser.keep(&got);
        got.header("location").unwrap().to_owned()
    }

    /// The browser comes back with these parameters.
    async fn come_back(&self, browser: &mut Browser, answer: &BTreeMap<String, String>) -> Got {
        let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(answer).finish();
        // The provider is another site, so a browser keeps its strict cookies back.
        let mut sent = browser.clone();
        sent.0.retain(|name, _| !name.ends_with("tsugi_session"));
        let got =
            self.send(&sent, "GET", &format!("/auth/callback/corp?{query}"), &[("Sec-Fetch-Site", "cross-site")]).await;
        browser.keep(&got);
        got
    }

    /// A whole sign-in of the person whom the provider knows.
    async fn sign_in(&self, browser: &mut Browser) -> Got {
        let address = self.begin(browser, "").await;
        self.come_back(browser, &self.provider.sign_in(&address)).await
    }

    async fn session(&self, browser: &Browser) -> Value {
        self.get(browser, "/api/session").await.json()
    }

    /// The browser is not signed in, and the page says this about it.
    async fn assert_refused(&self, browser: &Browser, got: &Got, status: u16, problem: &str, name: &str) {
        assert_eq!(got.status, status, "{name}: {got:?}");
        assert!(got.body.contains(&format!("url=/#/sign-in/{problem}\"")), "{name}: {got:?}");
        assert_eq!(browser.session(), None, "{name}");
        assert_eq!(self.session(browser).await["signedIn"], false, "{name}");
    }

    fn exchanges(&self) -> usize {
        std::mem::take(&mut *self.provider.exchanged.lock()).len()
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

#[tokio::test]
async fn a_person_signs_in_controls_and_signs_out_here_and_there() {
    let world = LoginGateway::new().await;
    let mut browser = Browser::default();
    let guest = world.session(&browser).await;
    let offered = json!([{"label": "Corp & Co", "address": format!("{PUBLIC}/auth/login/corp")}]);
    assert_eq!((&guest["providers"], &guest["signedIn"]), (&offered, &json!(false)));
    let got = world.get(&browser, "/auth/login/corp?view=/servers/up").await;
    let set = got.header("set-cookie").unwrap().to_owned();
    assert!(
        set.starts_with("__Host-tsugi_login=")
            && set.ends_with("; HttpOnly; SameSite=Lax; Path=/; Max-Age=600; Secure")
    );
    browser.keep(&got);
    let answer = world.provider.sign_in(got.header("location").unwrap());
    let got = world.come_back(&mut browser, &answer).await;
    assert_eq!((got.status, got.header("cache-control")), (200, Some("no-store")));
    assert!(got.body.contains("content=\"0;url=/#/servers/up\""), "{}", got.body);
    assert!(got.header("content-security-policy").unwrap().contains("frame-ancestors 'none'"));
    let session = got.headers.iter().find(|(_, value)| value.starts_with("__Host-tsugi_session=")).unwrap();
    assert!(session.1.ends_with("; HttpOnly; SameSite=Strict; Path=/; Secure"), "{}", session.1);
    assert!(!browser.0.contains_key("__Host-tsugi_login"), "the transaction is over");
    let told = world.session(&browser).await;
    assert_eq!((&told["role"], &told["name"], &told["signedIn"]), (&json!("admin"), &json!("alice"), &json!(true)));
    // Calls and control want the word that only our page has.
    assert_eq!(world.get(&browser, "/servers").await.status, 200);
    let word = ("X-Tsugi-Csrf", told["csrf"].as_str().unwrap());
    let json = ("Content-Type", "application/json");
    for path in ["/tools/up/echo", "/servers/up/restart"] {
        assert_eq!(world.send(&browser, "POST", path, &[json]).await.status, 403, "{path}");
        let forged = [json, word, ("Origin", "https://mcp.example.evil"), ("Sec-Fetch-Site", "cross-site")];
        assert_eq!(world.send(&browser, "POST", path, &forged).await.status, 403, "{path}");
        let own = [json, word, ("Origin", PUBLIC), ("Sec-Fetch-Site", "same-origin")];
        assert!(world.send(&browser, "POST", path, &own).await.status < 400, "{path}");
    }
    let cross = world.send(&browser, "GET", "/servers", &[("Sec-Fetch-Site", "cross-site")]).await;
    assert_eq!(cross.status, 403, "not for a page of another site");
    // Out, here and at the provider.
    let out = world.send(&browser, "DELETE", "/api/session", &[word]).await;
    let logout = Url::parse(out.json()["logout"].as_str().unwrap()).unwrap();
    let asked: BTreeMap<String, String> = logout.query_pairs().into_owned().collect();
    assert_eq!((logout.path(), asked["client_id"].as_str()), ("/logout", CLIENT));
    assert_eq!(asked["post_logout_redirect_uri"], format!("{PUBLIC}/"));
    assert_eq!(asked["id_token_hint"].split('.').count(), 3);
    assert_eq!(world.get(&browser, "/servers").await.status, 401, "the cookie opens nothing any more");
    browser.keep(&out);
    assert_eq!(browser.session(), None);
}

#[tokio::test]
async fn a_response_that_this_browser_did_not_ask_for_is_refused_before_the_provider_is_asked() {
    let world = LoginGateway::new().await;
    let (mut victim, mut attacker) = (Browser::default(), Browser::default());
    let address = world.begin(&mut attacker, "").await;
    let stolen = world.provider.sign_in(&address);
    // Login CSRF: the attacker's code in the victim's browser, which has begun nothing.
    let got = world.come_back(&mut victim, &stolen).await;
    world.assert_refused(&victim, &got, 400, "again", "no transaction").await;
    // The same while the victim has a sign-in of its own under way.
    let own = world.begin(&mut victim, "").await;
    let got = world.come_back(&mut victim.clone(), &stolen).await;
    world.assert_refused(&victim, &got, 400, "again", "a foreign state").await;
    let mut answer = world.provider.sign_in(&own);
    let state = answer.remove("state").unwrap();
    let got = world.come_back(&mut victim.clone(), &answer).await;
    world.assert_refused(&victim, &got, 400, "again", "no state").await;
    let query = format!("code={}&state=x&state={state}&iss={ISSUER}", answer["code"]);
    let got = world.get(&victim, &format!("/auth/callback/corp?{query}")).await;
    world.assert_refused(&victim, &got, 502, "provider", "two states").await;
    // A cookie that was changed is none.
    let mut changed = victim.clone();
    changed.0.values_mut().for_each(|value| value.insert(20, 'A'));
    answer.insert("state".to_owned(), state);
    let got = world.come_back(&mut changed, &answer).await;
    world.assert_refused(&changed, &got, 400, "again", "a changed cookie").await;
    assert_eq!(world.exchanges(), 0, "the provider was not asked");
    assert_eq!(world.come_back(&mut victim, &answer).await.status, 200, "beside all that, the victim's own way");
    assert_eq!(world.exchanges(), 1);
}

#[tokio::test]
async fn a_sign_in_is_completed_once_and_a_code_belongs_to_its_browser() {
    let world = LoginGateway::new().await;
    let mut browser = Browser::default();
    let address = world.begin(&mut browser, "").await;
    let (answer, mut copy) = (world.provider.sign_in(&address), browser.clone());
    assert_eq!(world.come_back(&mut browser, &answer).await.status, 200);
    let got = world.come_back(&mut copy, &answer).await;
    world.assert_refused(&copy, &got, 400, "again", "a state that was used").await;
    assert_eq!(world.exchanges(), 1);
    // A code that leaked, put into a transaction of the attacker: the provider sees another verifier.
    let (mut victim, mut attacker) = (Browser::default(), Browser::default());
    let leaked = world.provider.sign_in(&world.begin(&mut victim, "").await);
    let mut own = world.provider.sign_in(&world.begin(&mut attacker, "").await);
    own.insert("code".to_owned(), leaked["code"].clone());
    let got = world.come_back(&mut attacker, &own).await;
    world.assert_refused(&attacker, &got, 502, "provider", "a code of another browser").await;
    let got = world.come_back(&mut victim, &leaked).await;
    world.assert_refused(&victim, &got, 502, "provider", "a code that was used").await;
}

#[tokio::test]
async fn a_response_of_another_issuer_sends_no_code_anywhere() {
    let world = LoginGateway::new().await;
    for (iss, name) in [
        (Some("https://evil.example"), "another issuer"),
        (Some("https://login.example/"), "a slash more"),
        (Some("https://LOGIN.example"), "other letters"),
        (Some(""), "empty"),
        (None, "missing, though the provider says that it sends it"),
    ] {
        let mut browser = Browser::default();
        let mut answer = world.provider.sign_in(&world.begin(&mut browser, "").await);
        match iss {
            Some(iss) => answer.insert("iss".to_owned(), iss.to_owned()),
            None => answer.remove("iss"),
        };
        let got = world.come_back(&mut browser, &answer).await;
        world.assert_refused(&browser, &got, 502, "provider", name).await;
        assert_eq!(world.exchanges(), 0, "{name}");
    }
    let mut browser = Browser::default();
    let mut answer = world.provider.sign_in(&world.begin(&mut browser, "").await);
    answer.extend([("error".to_owned(), "access_denied".to_owned())]);
    answer.insert("error_description".to_owned(), "<script>alert(1)</script>".to_owned());
    let got = world.come_back(&mut browser, &answer).await;
    world.assert_refused(&browser, &got, 403, "denied", "refused by the person").await;
    assert!(!got.body.contains("alert") && world.exchanges() == 0, "no word of the provider is shown");
    assert_eq!(world.sign_in(&mut browser).await.status, 200, "beside them, the right one");
}

#[tokio::test]
async fn a_provider_that_sends_no_issuer_and_does_not_promise_one_signs_people_in() {
    let world = LoginGateway::new().await;
    world.provider.metadata.lock()["authorization_response_iss_parameter_supported"] = json!(false);
    let mut browser = Browser::default();
    let mut answer = world.provider.sign_in(&world.begin(&mut browser, "").await);
    answer.remove("iss");
    assert_eq!(world.come_back(&mut browser, &answer).await.status, 200);
}

#[tokio::test]
async fn the_code_of_one_provider_is_not_sent_to_another_though_neither_says_who_it_is() {
    let evil = Arc::new(EvilProvider::default());
    let world = LoginGateway::with(Setup { second: Some(evil.clone()), ..Setup::default() }).await;
    world.provider.metadata.lock()["authorization_response_iss_parameter_supported"] = json!(false);
    let mut browser = Browser::default();
    let got = world.get(&browser, "/auth/login/evil").await;
    browser.keep(&got);
    let asked = Url::parse(got.header("location").unwrap()).unwrap();
    let state = asked.query_pairs().find(|(name, _)| name == "state").unwrap().1.into_owned();
    // The mix-up: the attacker sends the browser on to the honest provider, with its own state. The honest provider
    // knows one address to send the browser back to, and that is not the attacker's.
    let honest = world.begin(&mut Browser::default(), "").await;
    assert!(honest.contains("%2Fauth%2Fcallback%2Fcorp"), "{honest}");
    let mut answer = world.provider.sign_in(&honest);
    answer.insert("state".to_owned(), state);
    answer.remove("iss");
    let got = world.come_back(&mut browser, &answer).await;
    world.assert_refused(&browser, &got, 400, "again", "a mix-up").await;
    assert_eq!((evil.codes.lock().len(), world.exchanges()), (0, 0), "no provider saw a code");
    let mut browser = Browser::default();
    let mut answer = world.provider.sign_in(&world.begin(&mut browser, "").await);
    answer.remove("iss");
    assert_eq!(world.come_back(&mut browser, &answer).await.status, 200, "beside it, the honest way");
}

#[tokio::test]
async fn a_sign_in_through_a_provider_ends_the_session_that_the_browser_had() {
    let key = ApiKey::of_secret("ann", "a key that is long enough").with_role(KeyRole::Admin);
    let world = LoginGateway::with(Setup { keys: vec![key], ..Setup::default() }).await;
    let json = ("Content-Type", "application/json");
    let mut browser = Browser::default();
    let body = r#"{"key":"a key that is long enough"}"#;
    let got = world.client.send("POST", "/api/session", &[HOST, json], body).await;
    assert_eq!(got.status, 200, "{got:?}");
    browser.keep(&got);
    let with_key = browser.clone();
    assert_eq!(world.sign_in(&mut browser).await.status, 200);
    assert_eq!(world.get(&with_key, "/servers").await.status, 401, "the session of the key is over");
    let first = browser.clone();
    assert_eq!(world.get(&first, "/servers").await.status, 200);
    assert_eq!(world.sign_in(&mut browser).await.status, 200);
    assert_eq!(world.get(&first, "/servers").await.status, 401, "and so is the first one of the person");
    assert_eq!(world.get(&browser, "/servers").await.status, 200);
    // A sign-in that another browser begins ends nothing here.
    assert_eq!(world.sign_in(&mut Browser::default()).await.status, 200);
    assert_eq!(world.get(&browser, "/servers").await.status, 200);
}

#[tokio::test]
async fn forged_id_tokens_sign_nobody_in() {
    let world = LoginGateway::new().await;
    let with = |name: &'static str, value: Value| {
        move |key: &ForgeKey, mut claims: Value| {
            claims[name] = value.clone();
            good_token(key, claims)
        }
    };
    let headed = |header: Value| move |key: &ForgeKey, claims: Value| key.sign(&header, &claims);
    let mut attacks: Vec<(&str, TokenWriter)> = vec![
        ("another nonce", Box::new(with("nonce", json!("x")))),
        ("no nonce", Box::new(with("nonce", Value::Null))),
        ("another audience", Box::new(with("aud", json!("other")))),
        ("an audience beside ours that is not trusted", Box::new(with("aud", json!([CLIENT, "other"])))),
        ("several audiences without azp", Box::new(with("aud", json!([CLIENT, "trusted"])))),
        ("another azp", Box::new(with("azp", json!("other")))),
        ("expired", Box::new(with("exp", json!(now() - 61)))),
        ("issued in the future", Box::new(with("iat", json!(now() + 600)))),
        ("no iat", Box::new(with("iat", Value::Null))),
        ("another issuer", Box::new(with("iss", json!("https://login.example/")))),
        ("no subject", Box::new(with("sub", json!("")))),
        ("a logout token", Box::new(with("events", json!({})))),
        ("an access token", Box::new(headed(json!({"alg": "ES256", "kid": "k1", "typ": "at+jwt"})))),
        ("HS256", Box::new(headed(json!({"alg": "HS256", "kid": "k1"})))),
        ("RS256 with an EC key", Box::new(headed(json!({"alg": "RS256", "kid": "k1"})))),
    ];
    attacks.push((
        "alg none",
        Box::new(|_, claims| format!("{}.{}.", encode(r#"{"alg":"none"}"#), encode(&claims.to_string()))),
    ));
    attacks.push(("another key of the same name", Box::new(|_, claims| good_token(&ForgeKey::es256("k1"), claims))));
    for (name, attack) in attacks {
        world.provider.write_tokens_by(attack);
        let mut browser = Browser::default();
        let got = world.sign_in(&mut browser).await;
        world.assert_refused(&browser, &got, 502, "provider", name).await;
    }
    let both = with("aud", json!([CLIENT, "trusted"]));
    world.provider.write_tokens_by(move |key, mut claims| {
        claims["azp"] = json!(CLIENT);
        both(key, claims)
    });
    assert_eq!(world.sign_in(&mut Browser::default()).await.status, 200, "a trusted audience beside ours");
}

#[tokio::test]
async fn a_person_without_a_role_gets_a_page_that_says_so() {
    let world = LoginGateway::new().await;
    for groups in [json!(["others"]), json!([]), Value::Null, json!({"mcp-admins": true})] {
        *world.provider.groups.lock() = groups.clone();
        let mut browser = Browser::default();
        let got = world.sign_in(&mut browser).await;
        world.assert_refused(&browser, &got, 403, "role", &groups.to_string()).await;
        assert!(got.body.contains("no role at this gateway"), "{}", got.body);
    }
    let lenient = LoginGateway::with(Setup { default_role: Some(KeyRole::Reader), ..Setup::default() }).await;
    *lenient.provider.groups.lock() = json!(["others"]);
    let mut browser = Browser::default();
    assert_eq!(lenient.sign_in(&mut browser).await.status, 200);
    let told = lenient.session(&browser).await;
    assert_eq!((&told["role"], &told["readOnly"]), (&json!("reader"), &json!(true)));
    assert_eq!(lenient.get(&browser, "/servers").await.status, 403);
}

#[tokio::test]
async fn no_return_address_leads_to_another_site() {
    let world = LoginGateway::new().await;
    for (query, place) in [
        ("?view=/servers/up%3Ftab=log", "/#/servers/up?tab=log"),
        ("?view=/calls%3Fserver=up%26outcome=bad", "/#/calls?server=up&amp;outcome=bad"),
        ("?page=board", "/board.html"),
        ("?view=//evil.example", "/#//evil.example"),
        ("?view=https://evil.example", "/"),
        ("?view=/%22%3E%3Cscript%3E", "/"),
        ("?view=/%0d%0aSet-Cookie:a=b", "/"),
        ("?view=/;url=https://evil.example", "/"),
        ("?page=https://evil.example", "/"),
        ("?return=https://evil.example&redirect_uri=https://evil.example", "/"),
    ] {
        let mut browser = Browser::default();
        let address = world.begin(&mut browser, query).await;
        assert!(address.starts_with(&format!("{ISSUER}/authorize?")), "{address}");
        let got = world.come_back(&mut browser, &world.provider.sign_in(&address)).await;
        assert_eq!(got.status, 200, "{query}");
        assert!(got.body.contains(&format!("content=\"0;url={place}\"")), "{query}: {}", got.body);
    }
}

#[tokio::test]
async fn cookies_of_another_gateway_and_planted_ones_open_nothing() {
    let (one, other) = (LoginGateway::new().await, LoginGateway::new().await);
    let mut browser = Browser::default();
    let address = one.begin(&mut browser, "").await;
    let answer = one.provider.sign_in(&address);
    let got = other.come_back(&mut browser.clone(), &answer).await;
    other.assert_refused(&Browser::default(), &got, 400, "again", "a transaction of another gateway").await;
    assert_eq!((one.exchanges(), other.exchanges()), (0, 0));
    assert_eq!(one.come_back(&mut browser, &answer).await.status, 200);
    assert_eq!(other.get(&browser, "/servers").await.status, 401, "a session of another gateway");
    assert_eq!(one.get(&browser, "/servers").await.status, 200);
    // Over TLS a cookie without the protected name is not read: another host of the domain could have planted it.
    let planted = Browser([("tsugi_session".to_owned(), browser.session().unwrap().clone())].into());
    assert_eq!(one.get(&planted, "/servers").await.status, 401);
    // Session fixation: the cookie that is there before a sign-in is never the one after it.
    let planted = browser.session().unwrap().clone();
    let mut victim = browser.clone();
    let answer = one.provider.sign_in(&one.begin(&mut victim, "").await);
    assert_eq!(one.come_back(&mut victim, &answer).await.status, 200);
    assert_ne!(*victim.session().unwrap(), planted);
}

#[tokio::test]
async fn a_session_ends_when_it_is_too_old_however_often_it_is_used() {
    let limits = SignInLimits { idle: Duration::from_secs(600), longest: Duration::ZERO };
    let world = LoginGateway::with(Setup { limits, ..Setup::default() }).await;
    let mut browser = Browser::default();
    assert_eq!(world.sign_in(&mut browser).await.status, 200);
    assert_eq!(world.get(&browser, "/servers").await.status, 401);
    assert_eq!(world.session(&browser).await["signedIn"], false);
}

#[tokio::test]
async fn an_id_token_is_no_credential_and_a_key_signs_in_as_before() {
    let (secret, key) = ApiKey::generate("ann");
    let world = LoginGateway::with(Setup { keys: vec![key], ..Setup::default() }).await;
    let claims = json!({"iss": ISSUER, "aud": [CLIENT, "trusted"], "sub": "alice", "iat": now(), "exp": now() + 300, "nonce": "n", "at_hash": "x"});
    let bearer = format!("Bearer {}", good_token(&world.provider.key, claims));
    let got = world.send(&Browser::default(), "GET", "/servers", &[("Authorization", &bearer)]).await;
    assert_eq!(got.status, 401, "{got:?}");
    let body = json!({"key": secret}).to_string();
    let json = ("Content-Type", "application/json");
    let got = world.client.send("POST", "/api/session", &[HOST, json], &body).await;
    assert!(got.header("set-cookie").unwrap().starts_with("__Host-tsugi_session="), "{got:?}");
    let plain = world.client.send("POST", "/api/session", &[json], &body).await;
    assert!(plain.header("set-cookie").unwrap().starts_with("tsugi_session="), "over the plain address beside it");
    assert_eq!(plain.json()["name"], "ann");
}

#[tokio::test]
async fn a_gateway_of_this_machine_signs_people_in_without_tls() {
    let world = LoginGateway::with(Setup { public: "http://127.0.0.1:7600", ..Setup::default() }).await;
    let mut browser = Browser::default();
    let got = world.sign_in(&mut browser).await;
    assert_eq!(got.status, 200, "{got:?}");
    assert!(browser.0.contains_key("tsugi_session") && browser.session().is_none());
    assert_eq!(world.session(&browser).await["signedIn"], true);
}

#[tokio::test]
async fn a_provider_that_is_away_is_asked_once_and_unknown_ones_never() {
    let world = LoginGateway::new().await;
    *world.provider.is_down.lock() = true;
    for _ in 0..5 {
        let got = world.get(&Browser::default(), "/auth/login/corp").await;
        world.assert_refused(&Browser::default(), &got, 502, "provider", "away").await;
    }
    assert_eq!(*world.provider.metadata_fetches.lock(), 1);
    assert_eq!(world.get(&Browser::default(), "/auth/login/other").await.status, 404);
    assert_eq!(world.send(&Browser::default(), "HEAD", "/auth/callback/corp?code=x&state=y", &[]).await.status, 401);
}

#[tokio::test]
async fn failed_sign_ins_are_limited_by_address_like_wrong_keys() {
    let world = LoginGateway::new().await;
    world.provider.write_tokens_by(|_, claims| good_token(&ForgeKey::es256("k1"), claims));
    let mut statuses = Vec::new();
    for _ in 0..25 {
        statuses.push(world.sign_in(&mut Browser::default()).await.status);
    }
    assert_eq!((statuses[0], statuses[24]), (502, 429), "{statuses:?}");
    assert!(world.exchanges() < 25);
}

#[tokio::test]
async fn a_gateway_without_providers_has_no_such_address() {
    let handle = serve(script(|_| complete(json!({"resultType": "complete"})))).await;
    let client = Client::of(&handle);
    for path in ["/auth/login/corp", "/auth/callback/corp?code=x"] {
        assert_eq!(client.send("GET", path, &[], "").await.status, 404, "{path}");
    }
}
