//! The MCP surface in process: a full story, the calls of the first design word for word, lists, resources, prompts.

use std::sync::Arc;

use serde_json::{Value, json};
use tsugi_pm::action::admin::RegisterAgent;
use tsugi_pm::domain::session::{EndKind, SessionHost};
use tsugi_pm::mcp::actor::ServerActor;
use tsugi_pm::mcp::process::ServerProcess;
use tsugi_pm::mcp::{Lang, PmServerSettings, Profile, server};
use tsugi_protocol::answer::{Answer, Call, CallFailure, Caller, Outcome, ReplyEvent};
use tsugi_protocol::json::JsonObject;
use tsugi_protocol::mcp::meta::RequestMeta;
use tsugi_protocol::mcp::{ClientCapabilities, ClientProfile, Method, ProtocolVersion};

use crate::world::{World, agent};

/// Somebody who talks to a server.
pub struct Client {
    pub answer: Arc<dyn Answer>,
    pub version: ProtocolVersion,
    pub caller: Caller,
    pub capabilities: ClientCapabilities,
}

impl Client {
    pub async fn of(world: &World, who: &str) -> Self {
        let settings =
            PmServerSettings { profile: Profile::Standard, ..PmServerSettings::new(ServerActor::Agent(agent(who))) };
        Self::over(server(world.pm.clone(), settings).await.unwrap())
    }

    pub fn over(answer: Arc<dyn Answer>) -> Self {
        let capabilities = ClientCapabilities::none();
        Self { answer, version: ProtocolVersion::LATEST, caller: Caller::local(), capabilities }
    }

    pub async fn send(&self, method: Method, params: Value) -> Result<Value, Value> {
        let mut call = Call::bare(method).from_caller(self.caller.clone());
        call.params = JsonObject::from(params);
        let capabilities = self.capabilities.clone();
        let client = ClientProfile { version: self.version, capabilities, ..ClientProfile::default() };
        call.meta = RequestMeta::of_client(Arc::new(client));
        match self.answer.answer(call).outcome().await {
            Outcome::Complete(complete) => Ok(complete.body.raw().to().unwrap()),
            Outcome::InputRequired(input) => Ok(input.to_result().raw().to().unwrap()),
            Outcome::Failed(CallFailure::Upstream(error)) => {
                let data = error.data().map(|data| data.to::<Value>().unwrap());
                Err(json!({"code": error.code(), "message": error.message(), "data": data}))
            }
            other => panic!("{other:?}"),
        }
    }

    pub async fn result(&self, tool: &str, arguments: Value) -> Value {
        self.send(Method::ToolsCall, json!({"name": tool, "arguments": arguments})).await.unwrap()
    }

    /// What a tool that should succeed answers.
    pub async fn call(&self, tool: &str, arguments: Value) -> Value {
        let result = self.result(tool, arguments).await;
        assert_eq!(result.get("isError"), None, "{tool}: {result}");
        assert!(result["content"][0]["text"].as_str().is_some_and(|text| text.len() < 5000), "{result}");
        result["structuredContent"].clone()
    }

    /// The error of a tool that should refuse.
    pub async fn refused(&self, tool: &str, arguments: Value, code: &str) -> Value {
        let result = self.result(tool, arguments).await;
        assert_eq!(result["isError"], true, "{tool}: {result}");
        let error = result["structuredContent"]["error"].clone();
        assert_eq!(error["code"], code, "{error}");
        assert!(error["retryable"].is_boolean() && error["details"].is_object(), "{error}");
        error
    }

    pub async fn read(&self, uri: &str) -> Value {
        let result = self.send(Method::ResourcesRead, json!({"uri": uri})).await.unwrap();
        serde_json::from_str(result["contents"][0]["text"].as_str().unwrap()).unwrap()
    }

    pub async fn prompt(&self, name: &str, arguments: Value) -> String {
        let result = self.send(Method::PromptsGet, json!({"name": name, "arguments": arguments})).await.unwrap();
        result["messages"][0]["content"]["text"].as_str().unwrap().to_owned()
    }

    async fn tools(&self) -> (usize, Vec<String>) {
        let result = self.send(Method::ToolsList, json!({})).await.unwrap();
        let tools = result["tools"].as_array().unwrap();
        let names = tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
        (result.to_string().len(), names)
    }
}

pub fn host() -> SessionHost {
    SessionHost { host: "here".to_owned(), pid: 1, process_nonce: "nonce".to_owned() }
}

#[tokio::test]
async fn a_story_is_told_from_the_first_session_to_the_review() {
    let world = World::sqlite().await;
    let (manager, one, two) =
        (Client::of(&world, "manager").await, Client::of(&world, "ann").await, Client::of(&world, "bob").await);
    let created = manager
        .call("create_task", json!({"project_id": world.project, "title": "Ship it", "acceptance": ["it works"]}))
        .await;
    let task = created["task"]["ref"].as_str().unwrap().to_owned();

    let started = one.call("start_session", json!({"project_id": world.project})).await;
    let session = started["session_id"].as_str().unwrap();
    assert!(session.starts_with("ses_"));
    let claimed = one.call("claim_task", json!({"session_id": session})).await;
    assert_eq!((&claimed["claimed"], &claimed["task"]["ref"]), (&json!(true), &json!(task)));
    let lost = two.refused("claim_task", json!({"task_id": task}), "already_claimed").await;
    assert_eq!(lost["details"]["holder"], "agt_ann");
    one.call("add_context", json!({"task_id": task, "content": "use SQLite", "type": "decision"})).await;
    one.call(
        "create_handoff",
        json!({"task_id": task, "to_agent_id": "agt_bob", "summary": "half done", "next_steps": ["the rest"]}),
    )
    .await;

    let waiting = two.call("get_pending_handoffs", json!({})).await;
    assert_eq!(waiting["notices"][0]["kind"], "handoff_offered", "{waiting}");
    let handoff = waiting["handoffs"][0]["id"].as_str().unwrap();
    let accepted = two.call("accept_handoff", json!({"handoff_id": handoff})).await;
    assert_eq!(accepted["contexts"][0]["content"], "use SQLite");
    one.refused("accept_handoff", json!({"handoff_id": handoff}), "handoff_not_pending").await;
    two.call("update_task_status", json!({"task_id": task, "status": "review", "result": {"summary": "works"}})).await;
    let judged = manager.call("review_task", json!({"task_id": task, "verdict": "approve"})).await;
    assert_eq!(judged["task"]["status"], "done");
    let ended = two.call("end_session", json!({"summary": "shipped"})).await;
    assert_eq!(ended["ended"], true);
    one.call("end_session", json!({"summary": "handed over", "session_id": session})).await;
}

#[tokio::test]
async fn the_calls_of_the_first_design_work_word_for_word_in_every_profile() {
    for profile in Profile::ALL {
        let world = World::sqlite().await;
        let task = world.task("t").await.reference;
        let settings = PmServerSettings {
            profile: *profile,
            lang: Lang::Ja,
            ..PmServerSettings::new(ServerActor::Agent(agent("ann")))
        };
        let client = Client::over(server(world.pm.clone(), settings).await.unwrap());
        assert_eq!(client.call("get_my_profile", json!({})).await["agent"]["id"], "agt_ann");
        client.call("list_agents", json!({"project_id": world.project})).await;
        client.call("list_agents", json!({})).await;
        let moved = json!({"task_id": task, "status": "in_progress", "reason": "開始"});
        assert_eq!(client.call("update_task_status", moved).await["changed"], true);
        let mine = client.call("get_my_tasks", json!({"status": "in_progress"})).await;
        assert_eq!(mine["tasks"][0]["ref"], task.as_str());
        client.call("add_context", json!({"task_id": task, "content": "メモ", "type": "note"})).await;
        let handoff =
            json!({"task_id": task, "to_agent_id": null, "summary": "途中", "next_steps": ["続き"], "warnings": null});
        client.call("create_handoff", handoff).await;
        client.call("get_pending_handoffs", json!({})).await;
        client.call("end_session", json!({"summary": "終了"})).await;
    }
}

#[tokio::test]
async fn the_lists_stay_small_and_closed_in_both_languages() {
    let world = World::sqlite().await;
    for lang in Lang::ALL {
        for (profile, count, most) in [
            (Profile::Seed, 8, 8192),
            (Profile::Core, 17, 8192),
            (Profile::Standard, 28, 16384),
            (Profile::All, 37, 24576),
        ] {
            let settings =
                PmServerSettings { profile, lang: *lang, ..PmServerSettings::new(ServerActor::Agent(agent("ann"))) };
            let client = Client::over(server(world.pm.clone(), settings).await.unwrap());
            let (bytes, names) = client.tools().await;
            println!("{profile} {lang}: {} tools, {bytes} bytes", names.len());
            assert_eq!(names.len(), count);
            assert!(bytes <= most, "{profile} in {lang} has {bytes} bytes");
        }
    }
}

#[tokio::test]
async fn every_argument_of_every_tool_is_described_in_the_language_of_the_list() {
    let world = World::sqlite().await;
    for lang in Lang::ALL {
        for profile in Profile::ALL {
            let settings = PmServerSettings {
                profile: *profile,
                lang: *lang,
                ..PmServerSettings::new(ServerActor::Agent(agent("ann")))
            };
            let client = Client::over(server(world.pm.clone(), settings).await.unwrap());
            let list = client.send(Method::ToolsList, json!({})).await.unwrap();
            for tool in list["tools"].as_array().unwrap() {
                for (name, argument) in tool["inputSchema"]["properties"].as_object().unwrap() {
                    let words = argument["description"].as_str().unwrap_or_default();
                    let is_japanese = words.chars().any(|letter| letter >= '\u{3000}');
                    assert!(
                        !words.is_empty() && is_japanese == (*lang == Lang::Ja),
                        "{} {name} in {profile}, {lang}: {words:?}",
                        tool["name"]
                    );
                }
            }
        }
    }
}

/// The words of the first design, which its clients show.
#[tokio::test]
async fn the_arguments_of_the_first_design_have_its_descriptions() {
    let world = World::sqlite().await;
    let settings = PmServerSettings {
        profile: Profile::Seed,
        lang: Lang::Ja,
        ..PmServerSettings::new(ServerActor::Agent(agent("ann")))
    };
    let client = Client::over(server(world.pm.clone(), settings).await.unwrap());
    let list = client.send(Method::ToolsList, json!({})).await.unwrap();
    let described = |tool: &str, argument: &str| {
        let tool = list["tools"].as_array().unwrap().iter().find(|one| one["name"] == tool).unwrap();
        tool["inputSchema"]["properties"][argument]["description"].as_str().unwrap().to_owned()
    };
    for (tool, argument, words) in [
        ("list_agents", "project_id", "プロジェクトID"),
        ("get_my_tasks", "status", "ステータスフィルタ"),
        ("update_task_status", "task_id", "タスクID"),
        ("update_task_status", "status", "新しいステータス"),
        ("update_task_status", "reason", "変更理由"),
        ("add_context", "task_id", "タスクID"),
        ("add_context", "content", "内容"),
        ("create_handoff", "to_agent_id", "引き継ぎ先エージェントID"),
        ("create_handoff", "summary", "作業サマリ"),
        ("create_handoff", "next_steps", "次のステップ"),
        ("create_handoff", "warnings", "注意点"),
        ("end_session", "summary", "セッションサマリ"),
    ] {
        assert_eq!(described(tool, argument), words, "{tool} {argument}");
    }
}

/// A project's key stands in front of every task number, so it is what people and agents know it by.
#[tokio::test]
async fn a_project_may_be_named_by_its_key_in_every_tool_and_prompt() {
    let world = World::sqlite().await;
    let settings =
        PmServerSettings { profile: Profile::All, ..PmServerSettings::new(ServerActor::Agent(agent("owner"))) };
    let owner = Client::over(server(world.pm.clone(), settings).await.unwrap());
    let task = json!({"ref": "a", "title": "in a batch"});
    let calls = [
        ("create_task", json!({"project_id": "WEB", "title": "by key"})),
        ("create_tasks", json!({"project_id": "WEB", "tasks": [task]})),
        ("start_session", json!({"project_id": "WEB"})),
        ("list_agents", json!({"project_id": "WEB"})),
        ("get_my_tasks", json!({"project_id": "WEB"})),
        ("get_ready_tasks", json!({"project_id": "WEB"})),
        ("list_tasks", json!({"project_id": "WEB"})),
        ("claim_task", json!({"project_id": "WEB"})),
        ("add_context", json!({"project_id": "WEB", "content": "x", "type": "note"})),
        ("get_pending_handoffs", json!({"project_id": "WEB"})),
        ("search", json!({"project_id": "WEB", "query": "key"})),
        ("get_history", json!({"project_id": "WEB"})),
        ("get_history", json!({"entity_id": "WEB"})),
        ("set_membership", json!({"project_id": "WEB", "agent_id": "agt_vic", "role": "worker"})),
        ("update_project", json!({"project_id": "WEB", "name": "Shop"})),
    ];
    let list = owner.send(Method::ToolsList, json!({})).await.unwrap();
    for tool in list["tools"].as_array().unwrap() {
        let takes_project = tool["inputSchema"]["properties"].get("project_id").is_some();
        let is_called = calls.iter().any(|(name, _)| tool["name"] == *name);
        assert!(!takes_project || is_called, "{} takes a project and is not tried here", tool["name"]);
    }
    for (name, arguments) in calls {
        let answer = owner.call(name, arguments).await;
        if name == "get_history" {
            assert!(!answer["events"].as_array().unwrap().is_empty(), "{answer}");
        }
    }
    assert!(owner.prompt("session_start", json!({"project_id": "WEB"})).await.contains("by key"));
    owner.refused("list_tasks", json!({"project_id": "SHOP"}), "not_found").await;
    owner.refused("list_tasks", json!({"project_id": "web"}), "invalid_argument").await;
}

#[tokio::test]
async fn the_key_of_a_project_one_does_not_belong_to_names_nothing() {
    let world = World::sqlite().await;
    world.operator(RegisterAgent::ai(agent("stranger"))).await;
    let stranger = Client::of(&world, "stranger").await;
    let error = stranger.refused("list_tasks", json!({"project_id": "WEB"}), "not_found").await;
    assert!(!error.to_string().contains("prj_"), "{error}");
    let nothing = stranger.refused("list_tasks", json!({"project_id": "NONE"}), "not_found").await;
    assert_eq!(error.to_string().replace("WEB", "NONE"), nothing.to_string());
}

#[tokio::test]
async fn the_hint_of_a_claim_that_came_too_late_names_what_is_free() {
    let world = World::sqlite().await;
    let (held, free) = (world.task("held").await, world.task("free").await);
    world.claim("ann", &held).await;
    let bob = Client::of(&world, "bob").await;
    let result = bob.result("claim_task", json!({"task_id": held.id})).await;
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains(&format!("hint: claim one of these instead: {}", free.reference)), "{text}");
    bob.call("claim_task", json!({"task_id": free.id})).await;
    let error =
        Client::of(&world, "cho").await.refused("claim_task", json!({"task_id": held.id}), "already_claimed").await;
    assert!(error["hint"].as_str().unwrap().starts_with("nothing else is ready now"), "{error}");
}

#[tokio::test]
async fn session_start_says_also_that_no_task_is_assigned() {
    let world = World::sqlite().await;
    for (lang, heading) in [(Lang::Ja, "## 担当タスク (0件)"), (Lang::En, "## Your tasks (0)")] {
        let settings = PmServerSettings { lang, ..PmServerSettings::new(ServerActor::Agent(agent("ann"))) };
        let client = Client::over(server(world.pm.clone(), settings).await.unwrap());
        let page = client.prompt("session_start", json!({})).await;
        assert!(page.contains(heading), "{page}");
    }
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_told_in_the_result() {
    let world = World::sqlite().await;
    let client = Client::of(&world, "ann").await;
    let error =
        client.refused("create_task", json!({"project_id": world.project, "titel": "x"}), "invalid_argument").await;
    assert!(error["message"].as_str().unwrap().contains("titel"), "{error}");
    client.refused("get_task", json!({}), "invalid_argument").await;
    client.refused("get_task", json!({"task_id": "nothing"}), "invalid_argument").await;
    client.refused("get_task", json!({"task_id": "WEB-999"}), "not_found").await;
    let error = client.send(Method::ToolsCall, json!({"name": "fly", "arguments": {}})).await.unwrap_err();
    assert_eq!(error["code"], -32602);
}

#[tokio::test]
async fn every_resource_can_be_read_and_a_missing_one_is_named() {
    let world = World::sqlite().await;
    let task = world.task("t").await;
    let client = Client::of(&world, "ann").await;
    let claimed = client.call("claim_task", json!({"task_id": task.id})).await;
    let session = claimed["session_id"].as_str().unwrap();
    assert_eq!(client.read("agent://me").await["agent"]["id"], "agt_ann");
    assert_eq!(client.read("agent://agt_bob").await["id"], "agt_bob");
    assert_eq!(client.read("session://current").await["session"]["id"], session);
    assert_eq!(client.read(&format!("session://{session}")).await["session"]["id"], session);
    assert_eq!(client.read(&format!("task://{}", task.id)).await["task"]["ref"], task.reference.as_str());
    assert_eq!(client.read(&format!("claim://{}", task.reference)).await["claim"]["agent_id"], "agt_ann");
    assert_eq!(client.read(&format!("context://{}", task.id)).await["contexts"], json!([]));
    assert_eq!(client.read(&format!("handoff://{}", task.id)).await["handoff"], Value::Null);
    let project = &world.project;
    assert_eq!(client.read(&format!("project://{project}")).await["project"]["id"], project.as_str());
    let board = client.read(&format!("project://{project}/board")).await;
    assert_eq!(board["in_progress"]["tasks"][0]["id"], task.id.as_str());
    client.read(&format!("project://{project}/ready")).await;
    let all = client.read(&format!("events://{project}")).await;
    let some = client.read(&format!("events://{project}?since={}", all["next_seq"])).await;
    assert_eq!(some["events"], json!([]));
    client.call("start_session", json!({})).await;
    assert_eq!(client.read("session://current").await["sessions"].as_array().unwrap().len(), 2);
    for uri in ["task://tsk_none", "task://x", "nothing://x", "session://ses_none"] {
        let error = client.send(Method::ResourcesRead, json!({"uri": uri})).await.unwrap_err();
        assert_eq!((&error["code"], &error["data"]["uri"]), (&json!(-32602), &json!(uri)), "{error}");
    }
}

#[tokio::test]
async fn subscribers_hear_of_changes_under_both_names_of_a_task_and_of_its_project() {
    let world = World::sqlite().await;
    let task = world.task("t").await;
    let client = Client::of(&world, "ann").await;
    let (key, _) = task.reference.split_once('-').unwrap();
    let uris = [
        format!("task://{}", task.id),
        format!("task://{}", task.reference),
        format!("project://{}/board", world.project),
        format!("project://{key}/ready"),
    ];
    let mut call = Call::bare(Method::Listen);
    call.params = JsonObject::from(json!({"notifications": {"resourceSubscriptions": uris}}));
    let mut reply = client.answer.answer(call);
    let ReplyEvent::Note(_) = reply.next().await else { panic!("no acknowledgment") };
    Client::of(&world, "bob").await.call("claim_task", json!({"task_id": task.id})).await;
    let mut open: Vec<&String> = uris.iter().collect();
    while !open.is_empty() {
        let ReplyEvent::Note(note) = reply.next().await else { panic!("the subscription ended") };
        let params = JsonObject::of(note.params.as_ref().unwrap()).unwrap();
        let told = params.get_str("uri").unwrap().into_owned();
        assert!(uris.contains(&told), "{note:?}");
        open.retain(|uri| **uri != told);
    }
}

#[tokio::test]
async fn prompts_guide_and_change_nothing() {
    let world = World::sqlite().await;
    let task = world.task("The one task").await;
    let client = Client::of(&world, "ann").await;
    let start = client.prompt("session_start", json!({})).await;
    assert!(start.contains("The one task") && start.len() <= 6144, "{start}");
    let begin = client.prompt("task_start", json!({"task_id": task.reference})).await;
    assert!(begin.contains(&format!("claim_task {{\"task_id\": \"{}\"}}", task.reference)), "{begin}");
    assert_eq!(client.call("get_task", json!({"task_id": task.id})).await["task"]["status"], "todo");
    client.call("claim_task", json!({"task_id": task.id})).await;
    client.call("add_context", json!({"task_id": task.id, "content": "found out", "type": "note"})).await;
    assert!(client.prompt("handoff_template", json!({"task_id": task.id})).await.contains("found out"));
    assert!(client.prompt("session_end", json!({})).await.contains("The one task"));
    let error = client.send(Method::PromptsGet, json!({"name": "task_start", "arguments": {}})).await.unwrap_err();
    assert_eq!(error["code"], -32602);
}

#[tokio::test]
async fn ids_are_completed() {
    let world = World::sqlite().await;
    let task = world.task("t").await;
    let client = Client::of(&world, "ann").await;
    let complete = |reference: Value, name: &str, value: &str| json!({"ref": reference, "argument": {"name": name, "value": value}});
    let prompt = json!({"type": "ref/prompt", "name": "task_start"});
    let found = client.send(Method::Complete, complete(prompt, "task_id", &task.reference[..4])).await.unwrap();
    assert_eq!(found["completion"]["values"], json!([task.reference]));
    let template = |uri: &str| json!({"type": "ref/resource", "uri": uri});
    let found = client.send(Method::Complete, complete(template("agent://{id}"), "id", "agt_ann")).await.unwrap();
    assert_eq!(found["completion"]["values"][0], "agt_ann");
    let found = client.send(Method::Complete, complete(template("project://{id}/board"), "id", "")).await.unwrap();
    assert!(found["completion"]["values"].as_array().unwrap().contains(&json!(world.project)), "{found}");
}

#[tokio::test]
async fn the_oldest_of_many_tasks_is_completed_by_either_name_and_nobody_elses() {
    let world = World::sqlite().await;
    let oldest = world.task("oldest").await;
    let tasks: Vec<Value> = (0..100).map(|at| json!({"ref": format!("r{at}"), "title": format!("t{at}")})).collect();
    let manager = Client::of(&world, "manager").await;
    for turn in 0..3 {
        let tasks: Vec<Value> = tasks
            .iter()
            .map(|task| json!({"ref": task["ref"], "title": format!("{} of {turn}", task["title"])}))
            .collect();
        manager.call("create_tasks", json!({"project_id": world.project, "tasks": tasks})).await;
    }
    let complete = |client: Client, typed: String| async move {
        let prompt = json!({"type": "ref/prompt", "name": "task_start"});
        let params = json!({"ref": prompt, "argument": {"name": "task_id", "value": typed}});
        client.send(Method::Complete, params).await.unwrap()["completion"].clone()
    };
    let (id, reference) = (oldest.id.to_string(), oldest.reference.clone());
    for typed in [id[..8].to_owned(), reference.clone(), reference.to_lowercase()] {
        let found = complete(Client::of(&world, "ann").await, typed.clone()).await;
        let name = if typed.starts_with("tsk_") { &id } else { &reference };
        assert_eq!(found["values"][0], name.as_str(), "{typed}");
    }
    let many = complete(Client::of(&world, "ann").await, reference[..4].to_owned()).await;
    assert_eq!((many["values"].as_array().unwrap().len(), &many["hasMore"]), (100, &json!(true)));
    world.operator(RegisterAgent::ai(agent("stranger"))).await;
    for typed in [&id[..8], &reference] {
        let stranger = complete(Client::of(&world, "stranger").await, typed.to_owned()).await;
        assert_eq!(stranger["values"], json!([]), "{typed}");
    }
}

#[tokio::test]
async fn a_legacy_client_that_begins_a_session_means_it_from_then_on() {
    let world = World::sqlite().await;
    let (one, other) = (world.task("one").await, world.task("other").await);
    let settings = PmServerSettings::new(ServerActor::Agent(agent("ann")));
    let process = ServerProcess::new(world.pm.clone(), agent("ann"), host(), settings).await.unwrap();
    let client = Client { version: ProtocolVersion::LATEST_LEGACY, ..Client::over(process.clone()) };
    let first = client.call("get_my_profile", json!({})).await["session_id"].clone();
    let begun = client.call("start_session", json!({"project_id": world.project})).await["session_id"].clone();
    assert_ne!(first, begun);
    let profile = client.call("get_my_profile", json!({})).await;
    assert_eq!((&profile["session_id"], profile["sessions"].as_array().unwrap().len()), (&begun, 1), "{profile}");
    client.call("claim_task", json!({"task_id": one.id, "session_id": begun})).await;
    client.call("release_task", json!({"task_id": one.id, "reason": "not now"})).await;

    // A session that holds something stays, and a call that means it must say so.
    client.call("claim_task", json!({"task_id": other.id})).await;
    client.call("start_session", json!({})).await;
    let lost = client.refused("release_task", json!({"task_id": other.id, "reason": "x"}), "claim_lost").await;
    assert!(lost["hint"].as_str().unwrap().contains(begun.as_str().unwrap()), "{lost}");
    client.call("release_task", json!({"task_id": other.id, "reason": "x", "session_id": begun})).await;
    process.end(EndKind::Eof).await;
    let after = Client::of(&world, "ann").await.read(&format!("session://{}", begun.as_str().unwrap())).await;
    assert_eq!(after["session"]["state"], "disconnected");
}

#[tokio::test]
async fn a_legacy_client_of_a_process_has_a_session_and_loses_it_with_the_process() {
    let world = World::sqlite().await;
    let task = world.task("t").await;
    let settings = PmServerSettings::new(ServerActor::Agent(agent("ann")));
    let process = ServerProcess::new(world.pm.clone(), agent("ann"), host(), settings).await.unwrap();
    let client = Client { version: ProtocolVersion::LATEST_LEGACY, ..Client::over(process.clone()) };
    let greeting = client.send(Method::Discover, json!({})).await.unwrap();
    let told = greeting["instructions"].as_str().unwrap();
    let session = client.call("get_my_profile", json!({})).await["session_id"].as_str().unwrap().to_owned();
    assert!(told.contains(&session), "{told}");
    let claimed = client.call("claim_task", json!({"task_id": task.id})).await;
    assert_eq!(claimed["session_id"], session.as_str());
    process.end(EndKind::Eof).await;
    let after = Client::of(&world, "ann").await.read(&format!("session://{session}")).await;
    assert_eq!((&after["session"]["state"], &after["session"]["end_kind"]), (&json!("disconnected"), &json!("eof")));
    assert_eq!(after["claims"][0]["task_id"], task.id.as_str(), "its claim waits");
}

#[tokio::test]
async fn a_modern_client_of_a_process_is_given_no_session_unasked() {
    let world = World::sqlite().await;
    let process = ServerProcess::new(
        world.pm.clone(),
        agent("ann"),
        host(),
        PmServerSettings::new(ServerActor::Agent(agent("ann"))),
    )
    .await;
    let client = Client::over(process.unwrap());
    client.send(Method::Discover, json!({})).await.unwrap();
    let profile = client.call("get_my_profile", json!({})).await;
    assert_eq!((&profile["sessions"], profile.get("session_id")), (&json!([]), None));
}
