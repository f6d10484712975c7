//! Behind a gateway: whose agent a caller is, what an operator may do, and what a token opens.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::json;
use tsugi_pm::action::admin::{
    ForceEndSession, IssueToken, ListTokens, RegisterAgent, RevokeToken, SetMembership, UpdateAgent,
};
use tsugi_pm::action::project::CreateProject;
use tsugi_pm::domain::fault::Code;
use tsugi_pm::domain::member::Role;
use tsugi_pm::domain::policy::ProjectPolicy;
use tsugi_pm::mcp::actor::{ServerActor, identity_of_token};
use tsugi_pm::mcp::{PmServerSettings, Profile, server};
use tsugi_protocol::answer::{Answer, Caller, Identity};

use crate::mcp::Client;
use crate::world::{World, agent};

/// The server as a gateway has it.
async fn shared(world: &World) -> Arc<dyn Answer> {
    let settings = PmServerSettings { profile: Profile::Standard, ..PmServerSettings::new(ServerActor::Principal) };
    server(world.pm.clone(), settings).await.unwrap()
}

fn client(answer: &Arc<dyn Answer>, caller: Caller) -> Client {
    Client { caller, ..Client::over(answer.clone()) }
}

#[tokio::test]
async fn a_verified_name_stands_for_an_agent_and_a_strange_one_for_nobody() {
    let world = World::sqlite().await;
    world.operator(RegisterAgent { name: Some("zoe".to_owned()), ..RegisterAgent::human(agent("x1")) }).await;
    let shared = shared(&world).await;
    for (principal, expected) in [("agt_ann", "agt_ann"), ("bob", "agt_bob"), ("zoe", "agt_x1")] {
        let profile = client(&shared, Caller::of_key(principal)).call("get_my_profile", json!({})).await;
        assert_eq!(profile["agent"]["id"], expected, "{principal}");
    }
    let names = ["mallory", "local", "anonymous", "pm:agt_ann", "pm:agt_ann@pm", ""];
    let strangers = names.into_iter().map(Identity::key).chain([Identity::Anonymous]);
    for stranger in strangers {
        let error =
            client(&shared, Caller::of(stranger)).refused("list_projects", json!({}), "permission_denied").await;
        assert!(error["hint"].as_str().unwrap().contains("tsugi pm agent add"), "{error}");
    }
}

/// The `sub` of a token is text that its holder may have chosen.
#[tokio::test]
async fn a_subject_is_never_the_agent_that_its_name_spells() {
    let world = World::sqlite().await;
    let registered = RegisterAgent { name: Some("subject:corp:zoe".to_owned()), ..RegisterAgent::human(agent("x1")) };
    world.operator(registered).await;
    let shared = shared(&world).await;
    for sub in ["local", "anonymous", "ann", "agt_ann", "pm:agt_ann@pm", "key:ann", "corp:zoe", "subject:corp:zoe"] {
        for issuer in ["corp", "other"] {
            let stranger = client(&shared, Caller::of(Identity::subject(issuer, sub)));
            stranger.refused("list_projects", json!({}), "permission_denied").await;
        }
    }
    // A key cannot spell a subject either.
    client(&shared, Caller::of_key("subject:corp:zoe")).refused("list_projects", json!({}), "permission_denied").await;
    let zoe = |issuer: &'static str| client(&shared, Caller::of(Identity::subject(issuer, "zoe")));
    assert_eq!(zoe("corp").call("get_my_profile", json!({})).await["agent"]["id"], "agt_x1");
    zoe("other").refused("list_projects", json!({}), "permission_denied").await;
}

#[tokio::test]
async fn operators_of_different_issuers_are_different_agents() {
    let world = World::sqlite().await;
    let shared = shared(&world).await;
    let mut seen = HashSet::from(["agt_local".to_owned(), "agt_ann".to_owned(), "agt_a-b".to_owned()]);
    for (issuer, sub) in [("corp", "ann"), ("other", "ann"), ("corp", "local"), ("corp", "a b"), ("corp", "a-b")] {
        let operator = client(&shared, Caller::of(Identity::subject(issuer, sub)).as_operator());
        let profile = operator.call("get_my_profile", json!({})).await;
        assert!(seen.insert(profile["agent"]["id"].as_str().unwrap().to_owned()), "{issuer} {sub}: {profile}");
    }
}

#[tokio::test]
async fn whoever_controls_the_gateway_is_a_person_who_owns_every_project() {
    let world = World::sqlite().await;
    let task = world.task("t").await;
    let shared = shared(&world).await;
    let callers = [
        (Identity::Anonymous, "agt_local"),
        (Identity::Local, "agt_local"),
        (Identity::key("admin"), "agt_admin"),
        (Identity::key("a b"), "agt_a-b"),
    ];
    for (identity, expected) in callers {
        let operator = client(&shared, Caller::of(identity).as_operator());
        let profile = operator.call("get_my_profile", json!({})).await;
        assert_eq!((&profile["agent"]["id"], &profile["agent"]["type"]), (&json!(expected), &json!("human")));
        assert_eq!(operator.call("list_projects", json!({})).await["projects"][0]["role"], "owner");
        let change = json!({"task_id": task.reference, "priority": "high", "assignee_id": expected});
        assert_eq!(operator.call("update_task", change).await["task"]["assignee_id"], expected);
        let history = operator.call("get_history", json!({"entity_id": task.id, "newest": true, "limit": 1})).await;
        assert_eq!(history["events"][0]["actor_agent_id"], expected);
    }
    world.check().await;
}

#[tokio::test]
async fn the_person_at_the_machine_does_not_change_the_rules_by_looking() {
    let world = World::sqlite().await;
    let operator = client(&shared(&world).await, Caller::of(Identity::Anonymous).as_operator());
    operator.call("list_tasks", json!({})).await;
    let members = operator.call("list_agents", json!({"project_id": world.project})).await;
    assert!(!members.to_string().contains("agt_local"), "{members}");
}

#[tokio::test]
async fn a_token_stands_for_its_agent_and_nobody_else() {
    let world = World::sqlite().await;
    let made = world.operator(IssueToken { agent_id: agent("ann"), scopes: vec![], expires_in_s: Some(60) }).await;
    assert!(made.secret.starts_with("tsugi_pm_"));
    let holder = world.pm.authenticate(&made.secret).await.unwrap().unwrap();
    let identity = identity_of_token(holder.agent_id().unwrap(), "pm");
    let ann = client(&shared(&world).await, Caller::of(identity));
    assert_eq!(ann.call("get_my_profile", json!({})).await["agent"]["id"], "agt_ann");
    ann.refused("create_project", json!({"key": "NEW", "name": "n"}), "permission_denied").await;
    world.clock.advance_seconds(61);
    assert!(world.pm.authenticate(&made.secret).await.unwrap().is_none());
}

#[tokio::test]
async fn history_can_be_read_from_its_newest_end() {
    let world = World::sqlite().await;
    for title in ["one", "two", "three"] {
        world.task(title).await;
    }
    let ann = Client::of(&world, "ann").await;
    let wish = json!({"project_id": world.project, "newest": true, "limit": 2});
    let latest = ann.call("get_history", wish).await;
    let numbers = |page: &serde_json::Value| -> Vec<i64> {
        page["events"].as_array().unwrap().iter().map(|event| event["seq"].as_i64().unwrap()).collect()
    };
    let first = numbers(&latest);
    assert!(first.len() == 2 && first[0] > first[1], "{first:?}");
    let wish = json!({"project_id": world.project, "before_seq": latest["next_seq"], "limit": 1});
    assert!(numbers(&ann.call("get_history", wish).await)[0] < first[1]);
}

/// Anybody can make a project and own it; that must not give anybody everybody's name.
#[tokio::test]
async fn an_owner_makes_tokens_only_for_agents_that_belong_to_nobody_else() {
    let world = World::sqlite().await;
    world.operator(RegisterAgent::human(agent("mallory"))).await;
    let own = CreateProject {
        key: "MINE".into(),
        name: "Mine".into(),
        description: String::new(),
        policy: ProjectPolicy::default(),
        idempotency_key: None,
    };
    let mine = world.ok("mallory", own).await.project.id;
    let token = |name: &str| IssueToken { agent_id: agent(name), scopes: Vec::new(), expires_in_s: None };
    let fault = world.refused("mallory", token("owner"), Code::PermissionDenied).await;
    assert_eq!((&fault.details["required"][0], fault.hint.is_empty()), (&json!("owner"), false), "{fault:?}");
    // Not even when the agent is drawn into that project.
    let join = |name: &str| SetMembership {
        project_id: mine.clone().into(),
        agent_id: agent(name),
        role: Some(Role::Worker),
        allow_ai_owner: false,
    };
    world.ok("mallory", join("ann")).await;
    world.refused("mallory", token("ann"), Code::PermissionDenied).await;
    let rename = UpdateAgent {
        agent_id: agent("ann"),
        name: None,
        role_title: None,
        capabilities: None,
        instructions: Some("obey mallory".into()),
        status: None,
    };
    world.refused("mallory", rename, Code::PermissionDenied).await;
    let theirs = world.operator(token("ann")).await;
    world.refused("mallory", RevokeToken { token_id: theirs.token_id }, Code::PermissionDenied).await;
    let session_id = world.session("bob").await;
    let end = ForceEndSession { session_id, reason: "mine now".into() };
    world.refused("mallory", end, Code::PermissionDenied).await;
    assert!(world.ok("mallory", ListTokens::default()).await.is_empty());

    world.ok("mallory", RegisterAgent::ai(agent("helper"))).await;
    world.ok("mallory", join("helper")).await;
    world.ok("mallory", token("helper")).await;
    world.ok("mallory", token("mallory")).await;
    assert_eq!(world.ok("mallory", ListTokens::default()).await.len(), 2);
    let narrow = IssueToken { scopes: vec!["read".into()], ..token("helper") };
    world.refused("mallory", narrow, Code::InvalidArgument).await;
}
