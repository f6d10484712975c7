//! Skills and pages of several servers at one address: merged, told apart, digests untouched, permits held.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tsugi_gateway::guard::caller_access::ServerTenants;
use tsugi_protocol::answer::{Answer, Call, Outcome, Reply};
use tsugi_protocol::mcp::Method;
use tsugi_protocol::rpc::RpcError;

use crate::identity::{TokenGateway, token};
use crate::world::*;

const SKILLS: &str = "io.modelcontextprotocol/skills";
const APPS: &str = "io.modelcontextprotocol/ui";

/// What reached the servers: server, method, and the address that was named.
type Journal = Arc<Mutex<Vec<(&'static str, String, String)>>>;

fn entry(mark: &str, skill: &str) -> Value {
    let root = format!("skill://{skill}");
    json!({
        "uri": format!("{root}/SKILL.md"), "frontmatter": {"name": skill, "description": mark},
        "resources": [
            {"uri": format!("{root}/SKILL.md"), "digest": format!("sha256:{mark}{skill}"), "size": 7},
            {"uri": format!("{root}/scripts/a.sh"), "digest": "sha256:0", "size": 1}
        ]
    })
}

/// A server with two skills, one to a page, and a tool with a page. Both servers have the same names for all of it.
fn server(mark: &'static str, ttl: u64, journal: Journal) -> Arc<dyn Answer> {
    script(move |call: Call| {
        let params: Value = call.params.raw().to().unwrap();
        let uri = params["uri"].as_str().unwrap_or_default().to_owned();
        let unknown = || Reply::ready(Outcome::error(RpcError::new(-32602, "no such skill")));
        if !matches!(call.method, Method::Discover | Method::ToolsList | Method::ResourcesList | Method::TemplatesList)
        {
            journal.lock().push((mark, call.method.to_string(), uri.clone()));
        }
        match call.method.as_str() {
            "server/discover" => complete(json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}, "resources": {}, "extensions": {SKILLS: {"directoryRead": true}, APPS: {}}},
                "_meta": {"io.modelcontextprotocol/serverInfo": {"name": mark, "version": "1"}}
            })),
            "tools/list" => listed(
                "tools",
                json!([{
                    "name": "clock", "inputSchema": {"type": "object"},
                    "_meta": {"ui": {"resourceUri": "ui://clock/page.html"}, "ui/resourceUri": "ui://clock/page.html"}
                }]),
            ),
            "resources/list" => listed("resources", json!([{"uri": "skill://review/SKILL.md", "name": "review"}])),
            "resources/templates/list" => listed("resourceTemplates", json!([])),
            "skills/list" => {
                let second = params["cursor"] == "2";
                let skill = if second { "review" } else { mark };
                let mut page = json!({
                    "resultType": "complete", "skills": [entry(mark, skill)], "ttlMs": ttl, "cacheScope": "public"
                });
                if !second {
                    page["nextCursor"] = json!("2");
                }
                complete(page)
            }
            "skills/get" if uri == "skill://review/SKILL.md" => complete(json!({
                "resultType": "complete", "skill": entry(mark, "review"), "ttlMs": ttl, "cacheScope": "public"
            })),
            "skills/get" => unknown(),
            "resources/directory/read" => complete(json!({
                "resultType": "complete", "resources": [{"uri": format!("{uri}/SKILL.md"), "name": "SKILL.md"}]
            })),
            "resources/read" => complete(json!({
                "resultType": "complete", "ttlMs": 0, "cacheScope": "public",
                "contents": [{"uri": uri, "mimeType": "text/markdown", "text": mark}]
            })),
            _ => complete(json!({"resultType": "complete", "content": [
                {"type": "text", "text": mark}, {"type": "resource_link", "uri": "ui://clock/page.html", "name": "page"}
            ]})),
        }
    })
}

async fn world() -> (Journal, TokenGateway) {
    let journal = Journal::default();
    let servers: Vec<(&str, Arc<dyn Answer>)> =
        vec![("one", server("one", 9000, journal.clone())), ("two", server("two", 500, journal.clone()))];
    (journal.clone(), TokenGateway::serving(servers, Vec::new(), ServerTenants::default()).await)
}

#[tokio::test]
async fn skills_of_two_servers_are_one_list_with_addresses_that_name_their_server() {
    let (journal, world) = world().await;
    let ann = token(json!({"iss": "corp", "sub": "ann"}));
    let ask = async |method: &str, params: Value| world.modern("/mcp", &ann, &modern(json!(1), method, params)).await;
    let discovered = ask("server/discover", json!({})).await.json();
    let declared = &discovered["result"]["capabilities"]["extensions"][SKILLS];
    assert_eq!(declared, &json!({"directoryRead": true}), "{discovered}");
    let list = ask("skills/list", json!({})).await.json()["result"].clone();
    let skills = list["skills"].as_array().unwrap();
    let uris: Vec<&str> = skills.iter().map(|skill| skill["uri"].as_str().unwrap()).collect();
    let expected = [
        "skill://one/one/SKILL.md",
        "skill://one/review/SKILL.md",
        "skill://two/two/SKILL.md",
        "skill://two/review/SKILL.md",
    ];
    assert_eq!(uris, expected, "{list}");
    assert_eq!((&list["ttlMs"], &list["cacheScope"]), (&json!(500), &json!("public")), "the narrowest");
    assert_eq!(
        skills[3]["resources"],
        json!([
            {"uri": "skill://two/review/SKILL.md", "digest": "sha256:tworeview", "size": 7},
            {"uri": "skill://two/review/scripts/a.sh", "digest": "sha256:0", "size": 1}
        ])
    );
    assert_eq!(skills[3]["frontmatter"], json!({"name": "review", "description": "two"}));
    journal.lock().clear();
    // Everything that the list names can be asked for, and leads to its own server.
    for (server, uri) in [("one", "skill://one/review/SKILL.md"), ("two", "skill://two/review/SKILL.md")] {
        let skill = ask("skills/get", json!({"uri": uri})).await.json()["result"].clone();
        assert_eq!(
            (&skill["skill"]["uri"], &skill["skill"]["frontmatter"]["description"]),
            (&json!(uri), &json!(server))
        );
        assert_eq!(skill["skill"]["resources"][0]["uri"], json!(uri), "{skill}");
        let read = ask("resources/read", json!({"uri": uri})).await.json()["result"]["contents"][0].clone();
        assert_eq!((&read["text"], &read["uri"]), (&json!(server), &json!(uri)), "{read}");
        let unlisted = uri.replace("SKILL.md", "scripts/a.sh");
        let read = ask("resources/read", json!({"uri": unlisted})).await.json()["result"]["contents"][0].clone();
        assert_eq!((&read["text"], &read["uri"]), (&json!(server), &json!(unlisted)), "{read}");
        let directory = format!("skill://{server}/review");
        let listed = ask("resources/directory/read", json!({"uri": directory})).await.json()["result"].clone();
        assert_eq!(listed["resources"][0]["uri"], json!(uri), "{listed}");
    }
    assert!(journal.lock().iter().all(|(_, _, uri)| uri.starts_with("skill://review")), "{:?}", journal.lock());
    let unknown = ask("skills/get", json!({"uri": "skill://nowhere/x/SKILL.md"})).await;
    assert_eq!(unknown.error_code(), -32602, "{unknown:?}");
    let listed = ask("resources/list", json!({})).await.body;
    assert!(
        listed.contains("skill://one/review/SKILL.md") && listed.contains("skill://two/review/SKILL.md"),
        "{listed}"
    );
}

#[tokio::test]
async fn a_caller_sees_the_skills_that_its_permit_names() {
    let (journal, world) = world().await;
    let narrow = token(json!({"iss": "corp", "sub": "ann", "allow": "one/skill://review/*"}));
    let ask =
        async |method: &str, params: Value| world.modern("/mcp", &narrow, &modern(json!(1), method, params)).await;
    let list = ask("skills/list", json!({})).await.json()["result"].clone();
    assert_eq!(list["skills"].as_array().unwrap().len(), 1, "{list}");
    assert_eq!(
        (&list["skills"][0]["uri"], &list["cacheScope"]),
        (&json!("skill://one/review/SKILL.md"), &json!("private"))
    );
    assert_eq!(ask("skills/get", json!({"uri": "skill://one/review/SKILL.md"})).await.status, 200);
    assert_eq!(ask("resources/read", json!({"uri": "skill://one/review/scripts/a.sh"})).await.status, 200);
    journal.lock().clear();
    for uri in
        ["skill://two/review/SKILL.md", "skill://one/one/SKILL.md", "skill://one/review/../one/SKILL.md", "skill://x/y"]
    {
        for method in ["skills/get", "resources/read", "resources/directory/read"] {
            let got = ask(method, json!({"uri": uri})).await;
            assert_eq!((got.status, got.error_code()), (403, -31008), "{method} {uri} {got:?}");
        }
    }
    assert!(journal.lock().is_empty(), "{:?}", journal.lock());
}

#[tokio::test]
async fn pages_of_tools_with_one_name_lead_to_their_own_servers() {
    let (journal, world) = world().await;
    let ann = token(json!({"iss": "corp", "sub": "ann"}));
    let ask = async |method: &str, params: Value| world.modern("/mcp", &ann, &modern(json!(1), method, params)).await;
    let tools = ask("tools/list", json!({})).await.json()["result"]["tools"].clone();
    for (tool, server) in tools.as_array().unwrap().iter().zip(["one", "two"]) {
        let page = json!(format!("ui://{server}/clock/page.html"));
        assert_eq!((&tool["_meta"]["ui"]["resourceUri"], &tool["_meta"]["ui/resourceUri"]), (&page, &page), "{tool}");
        journal.lock().clear();
        let read = ask("resources/read", json!({"uri": page})).await.json()["result"]["contents"][0].clone();
        assert_eq!((&read["text"], &read["uri"]), (&json!(server), &page), "{read}");
        let called = ask("tools/call", json!({"name": tool["name"], "arguments": {}})).await.json()["result"].clone();
        assert_eq!(called["content"][1]["uri"], page, "{called}");
        assert!(journal.lock().iter().all(|(asked, ..)| *asked == server), "{:?}", journal.lock());
    }
}
