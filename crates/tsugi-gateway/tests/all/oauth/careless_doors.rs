//! A careless gateway beside the real one: it checks signatures, and makes the mistakes about requests that the table of
//! attacks names. Each attack succeeds there, so each of them is one.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tsugi_auth::jose::jws::CompactJws;
use tsugi_auth::jose::key_set::KeySet;
use tsugi_gateway::guard::api_key::ApiKey;
use tsugi_gateway::guard::oauth::document_fetch::{DocumentFetch, DocumentKind};
use tsugi_gateway::route::ROUTES;
use tsugi_testkit::token_forge::ForgeKey;

use super::{ISSUER, IssuerSite, OauthGateway, PUBLIC, Setup, claims, with};
use crate::faults::{BASE, legacy_call, open_session};
use crate::world::*;

/// The one key that the careless gateway knows, of a caller named `ann`.
const KEY: &str = "a-key-of-ann-that-is-long";

/// What a request may do there: whose it is, and its scopes.
#[derive(Clone)]
struct CarelessCaller {
    name: String,
    scope: String,
}

struct CarelessGateway {
    site: Arc<IssuerSite>,
    sessions: Mutex<HashMap<String, CarelessCaller>>,
    /// The tool and the caller of every call that ran.
    journal: Mutex<Vec<(String, String)>>,
}

/// A request as the careless gateway reads it.
struct PlainRequest {
    verb: String,
    path: String,
    query: String,
    headers: Vec<(String, String)>,
    body: Value,
}

impl PlainRequest {
    async fn read(stream: &mut TcpStream) -> Option<Self> {
        let mut bytes = Vec::new();
        let (head, rest) = loop {
            let mut piece = [0; 4096];
            let length = stream.read(&mut piece).await.ok().filter(|length| *length > 0)?;
            bytes.extend_from_slice(&piece[..length]);
            if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break (String::from_utf8(bytes[..end].to_vec()).ok()?, bytes[end + 4..].to_vec());
            }
        };
        let mut lines = head.lines();
        let mut first = lines.next()?.split(' ');
        let (verb, address) = (first.next()?.to_owned(), first.next()?);
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let length: usize = length.and_then(|(_, value)| value.parse().ok()).unwrap_or_default();
        let mut body = rest;
        while body.len() < length {
            let mut piece = [0; 4096];
            let read = stream.read(&mut piece).await.ok().filter(|read| *read > 0)?;
            body.extend_from_slice(&piece[..read]);
        }
        let (path, query) = address.split_once('?').unwrap_or((address, ""));
        let body = serde_json::from_slice(&body).unwrap_or_default();
        Some(Self { verb, path: path.to_owned(), query: query.to_owned(), headers, body })
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().rfind(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// N07: a credential from wherever there is one, and the last of several.
    fn credential(&self) -> Option<String> {
        let in_query = self.query.split('&').find_map(|pair| pair.strip_prefix("access_token="));
        let given = self.header("authorization").or(self.header("x-api-key")).or(in_query)?;
        let basic = given.strip_prefix("Basic ");
        let decoded =
            basic.and_then(|text| BASE64_STANDARD.decode(text).ok()).and_then(|text| String::from_utf8(text).ok());
        let password =
            decoded.as_deref().and_then(|pair| pair.split_once(':')).map(|(_, password)| password.to_owned());
        Some(password.unwrap_or_else(|| given.trim_start_matches("Bearer ").trim_start_matches("Basic ").to_owned()))
    }
}

impl CarelessGateway {
    async fn start(site: &Arc<IssuerSite>) -> (Arc<Self>, Client) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = Client(listener.local_addr().unwrap());
        let gateway = Arc::new(Self { site: site.clone(), sessions: Mutex::default(), journal: Mutex::default() });
        let serving = gateway.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let Some(request) = PlainRequest::read(&mut stream).await else { continue };
                let (status, header, body) = serving.answer(&request).await;
                let length = body.len();
                let head =
                    format!("HTTP/1.1 {status} x\r\n{header}content-length: {length}\r\nconnection: close\r\n\r\n");
                let _ = stream.write_all((head + &body).as_bytes()).await;
            }
        });
        (gateway, client)
    }

    async fn answer(&self, request: &PlainRequest) -> (u16, String, String) {
        let plain = |status: u16| (status, String::new(), "{}".to_owned());
        if request.path.starts_with("/.well-known/") {
            // N18: the address is what the request says it is.
            let host = request.header("x-forwarded-host").or(request.header("host")).unwrap_or_default();
            return (200, String::new(), json!({"resource": format!("https://{host}/mcp")}).to_string());
        }
        // N16: one route asks for credentials, since the others were added later.
        if (request.verb.as_str(), request.path.as_str()) != ("POST", "/mcp") {
            return plain(200);
        }
        // N12: without its issuer it lets no one in.
        let Ok(keys) = self.site.get(&format!("{ISSUER}/keys"), DocumentKind::KeySet).await else { return plain(503) };
        let Some(caller) = request.credential().and_then(|credential| identify(&credential, &keys.body)) else {
            // N17: and the next guess is welcome.
            return plain(401);
        };
        if request.body["method"] == "initialize" {
            let id = format!("session-{}", self.sessions.lock().len());
            self.sessions.lock().insert(id.clone(), caller);
            return (
                200,
                format!("mcp-session-id: {id}\r\n"),
                json!({"jsonrpc": "2.0", "id": request.body["id"], "result": {}}).to_string(),
            );
        }
        // N09 and N10: a session belongs to those who know its id, with the rights of its first request.
        let session = request.header("mcp-session-id").and_then(|id| self.sessions.lock().get(id).cloned());
        let caller = session.unwrap_or(caller);
        let tool = request.body["params"]["name"].as_str().unwrap_or_default().to_owned();
        if tool.ends_with("write") && !caller.scope.contains("files.write") {
            return plain(403);
        }
        // N08: a caller is its name.
        self.journal.lock().push((tool, caller.name));
        plain(200)
    }

    fn reached(&self) -> Vec<String> {
        std::mem::take(&mut *self.journal.lock()).into_iter().map(|(_, caller)| caller).collect()
    }
}

fn identify(credential: &str, keys: &[u8]) -> Option<CarelessCaller> {
    if credential == KEY {
        return Some(CarelessCaller { name: "ann".to_owned(), scope: "files.write".to_owned() });
    }
    let jws = CompactJws::parse(credential).ok()?;
    let claims: Value = serde_json::from_slice(jws.verify(&KeySet::parse(keys).ok()?).ok()?).ok()?;
    let text = |name: &str| claims[name].as_str().unwrap_or_default().to_owned();
    Some(CarelessCaller { name: text("sub"), scope: text("scope") })
}

/// Both gateways, with one issuer.
async fn both(setup: Setup) -> (OauthGateway, Arc<CarelessGateway>, Client) {
    let world = OauthGateway::new(Setup { keys: vec![ApiKey::of_secret("ann", KEY)], ..setup }).await;
    let (gateway, client) = CarelessGateway::start(&world.site).await;
    let token = world.key.token(&claims());
    let body = legacy_call(json!(1), "up__echo", json!({})).to_string();
    // It is a gateway: it lets the right token in and a wrong one out.
    let ask = async |token: &str| {
        let bearer = format!("Bearer {token}");
        client.send("POST", "/mcp", &[BASE[0], ("Authorization", &bearer)], &body).await.status
    };
    assert_eq!((ask(&token).await, ask(&ForgeKey::es256("k1").token(&claims())).await), (200, 401));
    assert_eq!(gateway.reached(), ["alice"]);
    (world, gateway, client)
}

fn legacy(tool: &str) -> String {
    legacy_call(json!(1), tool, json!({})).to_string()
}

#[tokio::test]
async fn n07_a_careless_gateway_takes_a_token_from_anywhere() {
    let (world, careless, client) = both(Setup::default()).await;
    let token = world.key.token(&claims());
    let (bearer, stranger) = (format!("Bearer {token}"), "Bearer of-another".to_owned());
    let basic = format!("Basic {}", BASE64_STANDARD.encode(format!("x:{token}")));
    let in_query = format!("/mcp?access_token={token}");
    let attacks: [(&str, Vec<(&str, &str)>); 4] = [
        (&in_query, vec![]),
        ("/mcp", vec![("Authorization", &basic)]),
        ("/mcp", vec![("Authorization", &stranger), ("Authorization", &bearer)]),
        ("/mcp", vec![("X-Api-Key", &token)]),
    ];
    for (path, headers) in attacks {
        let refused = world.call_with(path, &headers).await;
        assert!(matches!(refused.status, 400 | 401) && world.reached() == 0, "{refused:?}");
        let headers = [&[BASE[0]], &headers[..]].concat();
        let got = client.send("POST", path, &headers, &legacy("up__echo")).await;
        assert_eq!((got.status, careless.reached().len()), (200, 1), "{path} {headers:?} is an attack");
    }
}

#[tokio::test]
async fn n08_a_careless_gateway_takes_a_subject_for_the_holder_of_a_key() {
    let (world, careless, client) = both(Setup::default()).await;
    let as_ann = format!("Bearer {}", world.key.token(&with("sub", json!("ann"))));
    let key = format!("Bearer {KEY}");
    for bearer in [&as_ann, &key] {
        assert_eq!(world.call_with("/mcp", &[("Authorization", bearer)]).await.status, 200);
        client.send("POST", "/mcp", &[BASE[0], ("Authorization", bearer)], &legacy("up__echo")).await;
    }
    let callers: Vec<String> = world.journal.lock().iter().map(|(_, _, caller)| caller.clone()).collect();
    assert_eq!(callers, ["subject:corp:ann", "key:ann"]);
    assert_eq!(careless.reached(), ["ann", "ann"], "one name for two callers is an attack");
}

#[tokio::test]
async fn n09_n10_a_careless_gateway_lends_its_sessions() {
    let rules = vec![("up/write", "files.write")];
    let (world, careless, client) = both(Setup { rules, ..Setup::default() }).await;
    let token = |sub: &str, scope: &str| {
        let mut claims = with("sub", json!(sub));
        claims["scope"] = json!(scope);
        format!("Bearer {}", world.key.token(&claims))
    };
    let (broad, narrow, other) = (token("alice", "mcp files.write"), token("alice", "mcp"), token("bob", "mcp"));
    let own = open_session(&world.client, "2025-11-25", &[("Authorization", &broad)]).await;
    let theirs = open_session(&client, "2025-11-25", &[("Authorization", &broad)]).await;
    careless.reached();
    let ask = async |client: &Client, session: &str, bearer: &str| {
        let headers = [BASE[0], BASE[1], ("Authorization", bearer), ("Mcp-Session-Id", session)];
        client.send("POST", "/mcp", &headers, &legacy("up__write")).await.status
    };
    for (bearer, status, row) in [(&narrow, 403, "N09"), (&other, 404, "N10")] {
        assert_eq!((ask(&world.client, &own, bearer).await, world.reached()), (status, 0), "{row}");
        assert_eq!(ask(&client, &theirs, bearer).await, 200, "{row} is an attack");
        assert_eq!(careless.reached(), ["alice"], "{row}");
    }
    assert_eq!((ask(&world.client, &own, &broad).await, world.reached()), (200, 1), "beside them, the owner");
}

#[tokio::test]
async fn n11_n12_a_careless_gateway_asks_its_issuer_at_the_pace_of_strangers_and_falls_with_it() {
    let (world, careless, client) = both(Setup { is_proxied: true, ..Setup::default() }).await;
    assert_eq!(world.call(&world.key.token(&claims())).await.status, 200);
    let before = world.site.key_fetches(ISSUER);
    for number in 0..50 {
        let bearer = format!("Bearer {}", ForgeKey::es256(&format!("invented-{number}")).token(&claims()));
        let from = format!("192.0.2.{number}");
        let refused = world.call_with("/mcp", &[("Authorization", &bearer), ("X-Forwarded-For", &from)]).await;
        assert_eq!(refused.status, 401);
    }
    assert!(world.site.key_fetches(ISSUER) <= before + 1, "at most one fetch in 30 s");
    let before = world.site.key_fetches(ISSUER);
    for number in 0..50 {
        let bearer = format!("Bearer {}", ForgeKey::es256(&format!("invented-{number}")).token(&claims()));
        client.send("POST", "/mcp", &[BASE[0], ("Authorization", &bearer)], &legacy("up__echo")).await;
    }
    assert_eq!(world.site.key_fetches(ISSUER), before + 50, "invented ids are an attack");
    world.site.set_down(true);
    world.reached();
    let key = format!("Bearer {KEY}");
    for bearer in [&key, &format!("Bearer {}", world.key.token(&claims()))] {
        assert_eq!(world.call_with("/mcp", &[("Authorization", bearer)]).await.status, 200);
        let got = client.send("POST", "/mcp", &[BASE[0], ("Authorization", bearer)], &legacy("up__echo")).await;
        assert_eq!((got.status, careless.reached().len()), (503, 0), "an issuer that is down is a failure there");
    }
    assert_eq!(world.reached(), 2);
}

#[tokio::test]
async fn n16_every_route_of_the_table_asks_for_a_credential_and_a_careless_gateway_forgets_some() {
    let (world, _careless, client) = both(Setup { base: "mcp", is_proxied: true, ..Setup::default() }).await;
    let narrow = format!("Bearer {}", world.key.token(&with("scope", json!("other"))));
    let mut forgotten = 0;
    for (number, entry) in ROUTES.iter().filter(|entry| !entry.route.is_open()).enumerate() {
        let (verb, path) = (entry.verb.as_str(), entry.pattern.replace("{}", "up"));
        let from = format!("192.0.2.{number}");
        for credential in [None, Some("Bearer eyJhIjox.e30.x"), Some(narrow.as_str())] {
            let mut headers = vec![("X-Forwarded-For", from.as_str()), BASE[0]];
            headers.extend(credential.map(|credential| ("Authorization", credential)));
            let refused = world.client.send(verb, &path, &headers, "{}").await;
            assert!(matches!(refused.status, 401 | 403), "{verb} {path} {credential:?}: {refused:?}");
        }
        forgotten += usize::from(client.send(verb, &path, &[BASE[0]], "{}").await.status == 200);
    }
    assert_eq!(world.reached(), 0);
    assert!(forgotten > 20, "{forgotten} routes are open without a table");
}

#[tokio::test]
async fn n17_a_careless_gateway_never_tires_of_guesses() {
    let (world, _careless, client) = both(Setup { is_proxied: true, ..Setup::default() }).await;
    let (mut own, mut theirs) = (Vec::new(), Vec::new());
    for guess in 0..100 {
        let bearer = format!("Bearer wrong-{guess}");
        let headers = [("Authorization", bearer.as_str()), ("X-Forwarded-For", "192.0.2.1")];
        own.push(world.call_with("/mcp", &headers).await.status);
        theirs.push(client.send("POST", "/mcp", &[BASE[0], headers[0]], &legacy("up__echo")).await.status);
    }
    assert_eq!((own[19], own[20], own[99]), (401, 429, 429), "{own:?}");
    assert!(theirs.iter().all(|status| *status == 401), "a hundred guesses are an attack: {theirs:?}");
    let bystander = [("Authorization", &*format!("Bearer {KEY}")), ("X-Forwarded-For", "192.0.2.2")];
    assert_eq!((world.call_with("/mcp", &bystander).await.status, world.reached()), (200, 1));
}

#[tokio::test]
async fn n18_a_careless_gateway_calls_itself_what_a_request_calls_it() {
    let (world, _careless, client) = both(Setup::default()).await;
    let path = "/.well-known/oauth-protected-resource/mcp";
    for header in [("Host", "evil.example"), ("X-Forwarded-Host", "evil.example")] {
        assert_eq!(world.get(path, &[header]).await.json()["resource"], format!("{PUBLIC}/mcp"));
        let spoofed = client.send("GET", path, &[header], "").await;
        assert_eq!(spoofed.json()["resource"], "https://evil.example/mcp", "{header:?} is an attack");
    }
}
