//! The board as the gateway gives it out: to whom, in which forms, and never as anything but text.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tsugi_gateway::backend::{Backend, BoardViewer, Endpoint};
use tsugi_gateway::guard::AccessGuard;
use tsugi_gateway::guard::api_key::{ApiKey, KeyRole};
use tsugi_gateway::guard::permit::AccessPermit;
use tsugi_gateway::{GatewayConfig, GatewayHandle};
use tsugi_protocol::answer::Caller;

use crate::world::*;

/// Wants to be run, to end an attribute and to turn around.
const HOSTILE: &str = "\"><script>alert(1)</script><img src=x onerror='alert(2)'>\u{202e}";

/// A board that answers what it is given, and remembers who asked.
#[derive(Default)]
struct FakeBoard {
    asked: Mutex<Vec<String>>,
    events: i64,
}

impl FakeBoard {
    fn note(&self, what: String) {
        self.asked.lock().push(what);
    }
}

impl Backend for FakeBoard {
    fn all(&self) -> Endpoint {
        Endpoint::plain(script(|_| complete(json!({}))))
    }

    fn server(&self, _name: &str) -> Option<Endpoint> {
        None
    }

    fn guard(&self) -> Option<Arc<AccessGuard>> {
        None
    }

    fn board(
        &self,
        looker: BoardViewer<'_>,
        look: &str,
        arguments: Value,
    ) -> Option<BoxFuture<'static, Result<Value, Value>>> {
        let who = match looker {
            BoardViewer::Caller(caller) => caller.identity().short_name().to_owned(),
            BoardViewer::ReadOnly => "(only looks)".to_owned(),
        };
        self.note(format!("{who} {look}"));
        let answer = match look {
            "get_timeline" => Ok(self.timeline(&arguments)),
            "get_task" => Err(json!({"code": "not_found", "message": "no task"})),
            other => Ok(told(other, &arguments)?),
        };
        Some(async move { answer }.boxed())
    }

    fn board_order(
        &self,
        caller: &Caller,
        order: &str,
        arguments: Value,
    ) -> Option<BoxFuture<'static, Result<Value, Value>>> {
        self.note(format!("{} orders {order} {arguments}", caller.identity().short_name()));
        (order == "send_message").then(|| async { Ok(json!({"sent": true})) }.boxed())
    }
}

impl FakeBoard {
    fn timeline(&self, arguments: &Value) -> Value {
        let since = arguments["since_seq"].as_i64().unwrap_or(0);
        let last = self.events.min(since + arguments["limit"].as_i64().unwrap());
        let events: Vec<Value> = (since + 1..=last)
            .map(|seq| json!({"seq": seq, "at": 0, "type": "task.done", "reason": "=1+1,\"x\"\n", "changes": []}))
            .collect();
        json!({"events": events, "has_more": last < self.events, "tasks": {}})
    }
}

/// What the views answer: everything that anybody could have written is hostile.
fn told(look: &str, arguments: &Value) -> Option<Value> {
    let task = json!({"id": "tsk_1", "ref": "WEB-1", "title": HOSTILE, "status": "todo", "priority": "high", "ready": false,
        "assignee_id": "agt_x", "labels": [HOSTILE], "blocked_reason": HOSTILE,
        "waiting_on": [{"id": "tsk_7", "ref": "WEB-7", "status": "todo"}]});
    Some(match look {
        "list_projects" => json!({"projects": [{"id": "prj_1", "key": "WEB", "name": HOSTILE, "status": "active"}]}),
        "list_agents" => json!({"agents": [{"id": "agt_x", "name": HOSTILE}]}),
        "get_needs" => json!({"total": 2, "needs": [
            {"kind": "blocked", "task": task},
            {"kind": "expired", "agent_id": "agt_x", "client_name": HOSTILE, "last_activity_at": 0, "tasks": [task]}]}),
        "get_crew" => {
            json!({"members": [{"agent_id": "agt_x", "state": "active", "client_name": HOSTILE, "started_at": 0,
            "last_activity_at": 0, "holds": [{"ref": "WEB-1", "title": HOSTILE, "renewed_at": 0, "expires_at": 60_000,
            "checkpoint": HOSTILE}]}]})
        }
        "get_board" => json!({"project_status": "active", "labels": [HOSTILE], "asked": arguments,
            "columns": [{"status": "todo", "total": 50, "cards": [task]}, {"status": "done", "total": 0, "cards": []}]}),
        "get_state" => json!({"bytes": 1}),
        _ => return None,
    })
}

struct World {
    /// Serves as long as it is kept.
    _handle: GatewayHandle,
    client: Client,
    board: Arc<FakeBoard>,
}

impl World {
    async fn with(keys: Vec<ApiKey>, events: i64) -> Self {
        let board = Arc::new(FakeBoard { events, ..FakeBoard::default() });
        let handle = serve_backend(GatewayConfig { keys, ..GatewayConfig::on_free_port() }, board.clone()).await;
        let client = Client::of(&handle);
        Self { _handle: handle, client, board }
    }

    async fn get(&self, path: &str, key: Option<&str>) -> Got {
        let bearer = format!("Bearer {}", key.unwrap_or_default());
        let headers = [("Authorization", bearer.as_str())];
        self.client.send("GET", path, if key.is_some() { &headers } else { &[] }, "").await
    }
}

fn key(name: &str, role: KeyRole) -> (String, ApiKey) {
    let (secret, key) = ApiKey::generate(name);
    (secret, key.with_role(role))
}

#[tokio::test]
async fn the_plain_board_runs_nothing_and_shows_hostile_texts_as_texts() {
    let world = World::with(Vec::new(), 0).await;
    let got = world.get("/board.html?text=%22%3E%3Cscript%3E&label=x", None).await;
    assert_eq!(got.status, 200, "{got:?}");
    let policy = got.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-") && !policy.contains("unsafe"), "{policy}");
    assert!(!policy.contains("script-src"), "{policy}");
    assert_eq!(
        (got.header("x-content-type-options"), got.header("cache-control")),
        (Some("nosniff"), Some("no-store"))
    );
    assert!(got.header("content-type").unwrap().starts_with("text/html"));
    let page = &got.body;
    for part in ["<script", "<img", "onerror='", "\u{202e}"] {
        assert!(!page.contains(part), "{part} in {page}");
    }
    assert!(page.contains("name=\"text\" value=\"&quot;&gt;&lt;script&gt;\">"), "what was asked for ends no attribute");
    // Project, needs (title, reason, client, name), crew (name, client, title, checkpoint), card, labels: all are there.
    assert!(page.matches("&lt;script&gt;alert(1)&lt;/script&gt;").count() >= 12, "{page}");
    for shown in ["WEB-7", "ran out", "1970-01-01 00:00 UTC", "49 more", "Needs you", "Agents now", "To do", "Done"] {
        assert!(page.contains(shown), "{shown} in {page}");
    }
}

#[tokio::test]
async fn the_plain_board_speaks_japanese_to_who_prefers_it() {
    let world = World::with(Vec::new(), 0).await;
    let headers = [("Accept-Language", "ja,en;q=0.5")];
    let got = world.client.send("GET", "/board.html", &headers, "").await;
    assert!(got.body.contains("<html lang=\"ja\">") && got.body.contains("あなたの対応待ち"), "{}", got.body);
}

#[tokio::test]
async fn the_plain_board_has_the_same_door_as_the_page() {
    let (secret, admin) = key("ann", KeyRole::Admin);
    let world = World::with(vec![admin], 0).await;
    let closed = world.get("/board.html", None).await;
    assert_eq!(closed.status, 401);
    assert!(closed.body.contains("<form method=\"post\"") && !closed.body.contains("WEB-1"), "{}", closed.body);
    assert!(world.board.asked.lock().is_empty(), "nothing is asked for strangers");
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let wrong = world.client.send("POST", "/board.html", &form, "key=tsugi_wrong").await;
    assert_eq!((wrong.status, wrong.header("set-cookie")), (401, None));
    let foreign = [form[0], ("Origin", "https://elsewhere.example"), ("Sec-Fetch-Site", "cross-site")];
    assert_eq!(world.client.send("POST", "/board.html", &foreign, &format!("key={secret}")).await.status, 403);
    let entered = world.client.send("POST", "/board.html", &form, &format!("key={secret}")).await;
    assert_eq!((entered.status, entered.header("location")), (303, Some("/board.html")), "{entered:?}");
    let cookie = entered.header("set-cookie").unwrap();
    assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
    let cookie = [("Cookie", cookie.split(';').next().unwrap())];
    let open = world.client.send("GET", "/board.html", &cookie, "").await;
    assert!(open.status == 200 && open.body.contains("WEB-1"), "{open:?}");
}

#[tokio::test]
async fn without_dashboard_there_is_no_plain_board_either() {
    let board: Arc<FakeBoard> = Arc::default();
    let handle = serve_backend(GatewayConfig { dashboard: false, ..GatewayConfig::on_free_port() }, board).await;
    let client = Client::of(&handle);
    for path in ["/board.html", "/api/board/get_board"] {
        assert_eq!(client.send("GET", path, &[], "").await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn everybody_looks_as_themselves_and_only_some_see_the_whole_database() {
    let ((admin, one), (reader, two), (user, three)) =
        (key("ann", KeyRole::Admin), key("eve", KeyRole::Reader), key("bob", KeyRole::User));
    let narrow =
        ApiKey::of_secret("cho", "narrow-key-4711").with_permit(AccessPermit::new(&["pm/list_projects"], &[]).unwrap());
    let world = World::with(vec![one, two, three, narrow], 0).await;
    for (secret, status) in [(admin.as_str(), 200), (&reader, 200), (&user, 403), ("narrow-key-4711", 403)] {
        assert_eq!(world.get("/api/board/get_state", Some(secret)).await.status, status);
    }
    for (secret, status) in [(admin.as_str(), 200), (&reader, 200), (&user, 200), ("narrow-key-4711", 403)] {
        assert_eq!(world.get("/api/board/get_board", Some(secret)).await.status, status);
    }
    let asked = world.board.asked.lock().clone();
    let boards: Vec<&str> = asked.iter().filter_map(|one| one.strip_suffix(" get_board")).collect();
    assert_eq!(boards, ["ann", "(only looks)", "bob"]);
    assert_eq!(world.get("/api/board/get_task", Some(&admin)).await.status, 422);
    assert_eq!(world.get("/api/board/delete_all", Some(&admin)).await.status, 404);
    assert_eq!(world.get("/api/board/get_board", None).await.status, 401);
}

#[tokio::test]
async fn an_order_needs_a_key_that_may_change_things_and_our_own_page() {
    let ((admin, one), (reader, two)) = (key("ann", KeyRole::Admin), key("eve", KeyRole::Reader));
    let world = World::with(vec![one, two], 0).await;
    let order = async |secret: &str, more: &[(&str, &str)], path: &str| {
        let bearer = format!("Bearer {secret}");
        let mut headers = vec![("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
        headers.extend(more);
        world.client.send("POST", path, &headers, r#"{"text":"hello"}"#).await.status
    };
    let path = "/api/board/send_message";
    assert_eq!(order(&reader, &[], path).await, 403);
    let foreign = [("Origin", "https://elsewhere.example"), ("Sec-Fetch-Site", "cross-site")];
    assert_eq!(order(&admin, &foreign, path).await, 403);
    assert!(world.board.asked.lock().is_empty());
    assert_eq!(order(&admin, &[], path).await, 200);
    assert_eq!(*world.board.asked.lock(), ["ann orders send_message {\"text\":\"hello\"}"]);
    assert_eq!(order(&admin, &[], "/api/board/drop_everything").await, 404);
}

#[tokio::test]
async fn the_whole_history_is_taken_away_as_lines_or_as_a_table() {
    let world = World::with(Vec::new(), 1234).await;
    let lines = world.get("/api/board/events.jsonl?project_id=prj_1&kind=task", None).await;
    assert_eq!(lines.header("content-disposition"), Some("attachment; filename=\"events.jsonl\""));
    let seqs: Vec<i64> =
        lines.body.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["seq"].as_i64().unwrap()).collect();
    assert_eq!(seqs, (1..=1234).collect::<Vec<_>>(), "every event once, over several pages");
    let table = world.get("/api/board/events.csv", None).await;
    assert!(table.header("content-type").unwrap().starts_with("text/csv"));
    assert!(table.body.starts_with("seq,at,type,"), "{}", &table.body[..100]);
    assert_eq!(table.body.matches("\"'=1+1,\"\"x\"\"\n\"").count(), 1234, "a formula stays a text");
}
