//! Servers that come and go while calls run, and servers that stay down when they should.

use std::time::Duration;

use serde_json::json;
use tsugi_client::connection::state::ConnectionState;
use tsugi_client::manager::{ReconcileStep, ToolExecution};
use tsugi_client::{Manager, RestartPolicy, ServerEvent};
use tsugi_protocol::answer::{Answer, FaultCode, Outcome, SentState};
use tsugi_testkit::script::{Action, Rule, Script};
use tsugi_testkit::scripted::Scripted;
use tsugi_testkit::wait;

use crate::outcome::{fault, text};
use crate::world::{Bench, LIMIT, Peer, call, config, options};

#[tokio::test]
async fn a_server_that_is_not_to_be_restarted_stays_down_until_somebody_starts_it() {
    let dying = Script::legacy().rule(Rule::on_tool("count").launch(1).act(Action::Exit(3)));
    let bench = Bench::with(dying, |mut config| {
        config.restart = RestartPolicy::Never;
        config
    });
    bench.works().await;
    assert_eq!(fault(&bench.call("count", json!({})).await).code, FaultCode::ServerCrashed);
    assert!(wait::until(|| bench.server.status().state == ConnectionState::Failed).await);
    let refused = fault(&bench.call("echo", json!({"message": "x"})).await);
    assert_eq!(refused.code, FaultCode::ServerNotRunning, "{refused}");
    assert!(refused.process.is_some(), "it says how the server ended: {refused}");
    assert_eq!(bench.peer.journal().launches(), 1);
    bench.server.start();
    bench.server.ready(LIMIT).await.ok();
    assert!(wait::until(|| bench.server.status().state == ConnectionState::Connected).await);
    bench.finish().await;
}

#[tokio::test]
async fn servers_are_registered_and_removed_while_calls_run_and_no_call_is_lost() {
    let bench = Bench::new(Script::legacy());
    bench.works().await;
    let mut changes = bench.manager.changes();
    let (running, added) = (bench.server.answer(call("sleep", json!({"ms": 300}))), Scripted::new(Script::modern()));
    let server = bench.manager.register(config("added", added.target())).unwrap();
    assert_eq!(text(&server.answer(call("echo", json!({"message": "new"}))).outcome().await), "new");
    let again = bench.manager.register(config("added", added.target())).err().expect("the name is taken");
    assert_eq!(again.code, FaultCode::ServerExists);
    let last = server.answer(call("sleep", json!({"ms": 300})));
    assert!(wait::until(|| server.status().in_flight == 1).await);
    let (was_there, last) = tokio::join!(bench.manager.remove("added"), last.outcome());
    assert!(was_there && matches!(last, Outcome::Complete(_)), "{last:?}");
    assert_eq!(added.processes(), [], "nothing is left of it");
    assert!(!bench.manager.remove("added").await);
    let gone = fault(&server.answer(call("echo", json!({}))).outcome().await);
    assert_eq!((gone.code, gone.retryable), (FaultCode::ServerNotRunning, false), "{gone}");
    assert!(matches!(running.outcome().await, Outcome::Complete(_)));
    let mut told = Vec::new();
    while let Ok(change) = changes.try_recv() {
        told.extend((&*change.server == "added").then_some(change.what));
    }
    assert_eq!((told.first(), told.last()), (Some(&ServerEvent::Registered), Some(&ServerEvent::Removed)));
    bench.finish().await;
}

#[tokio::test]
async fn a_manager_that_stops_waits_also_for_a_server_that_a_reload_has_just_removed() {
    let (manager, removed) = (Manager::new(options()), Scripted::new(Script::legacy()));
    manager.reconcile(vec![config("one", removed.target())]);
    let server = manager.server("one").unwrap();
    server.ready(LIMIT).await.unwrap();
    let running = server.answer(call("sleep", json!({"ms": 300})));
    assert!(wait::until(|| server.status().in_flight == 1).await);
    assert_eq!(manager.reconcile(Vec::new()), [ReconcileStep::Remove("one".into())]);
    let ((), last) = tokio::join!(manager.stop(), running.outcome());
    assert_eq!(removed.processes(), [], "nothing is left of it");
    assert!(matches!(last, Outcome::Complete(_)), "{last:?}");
}

#[tokio::test]
async fn a_server_whose_process_is_to_be_stopped_otherwise_is_replaced_and_one_that_hides_more_is_kept() {
    let (manager, scripted) = (Manager::new(options()), Scripted::new(Script::legacy()));
    let first = config("one", scripted.target());
    manager.reconcile(vec![first.clone()]);
    let mut hiding = first.clone();
    hiding.job.0.redact.extend(["another server's secret".to_owned()]);
    assert_eq!(manager.reconcile(vec![hiding]), [ReconcileStep::Keep("one".into())]);
    let mut patient = first;
    patient.job.0.grace.stdin += Duration::from_secs(1);
    assert_eq!(manager.reconcile(vec![patient]), [ReconcileStep::Replace("one".into())]);
    manager.stop().await;
}

#[tokio::test]
async fn a_call_that_is_cut_by_an_ordered_stop_was_not_crashed_by_its_server() {
    let bench = Bench::new(Script::legacy().rule(Rule::on_tool("count").act(Action::Silence)));
    bench.works().await;
    let reply = bench.server.answer(call("count", json!({})));
    let cut = tokio::spawn(reply.outcome());
    assert!(wait::until(|| bench.server.status().in_flight == 1).await);
    bench.server.stop().await;
    let cut = fault(&cut.await.unwrap());
    assert_eq!((cut.code, cut.sent), (FaultCode::ConnectionLost, SentState::Unknown), "{cut}");
    bench.finish().await;
}

#[tokio::test]
async fn a_tool_that_a_named_server_does_not_have_is_not_found_without_asking_it() {
    let bench = Bench::new(Script::legacy());
    bench.settle().await;
    let before = bench.peer.journal().received("tools/call").len();
    let missing = bench.manager.call_tool(Some("tested"), "nope", None).outcome().await;
    assert_eq!(fault(&missing).code, FaultCode::ToolNotFound);
    let execution = ToolExecution { server: Some("tested".into()), tool: "nope".into(), arguments: None };
    assert_eq!(bench.manager.run(execution).await.error.unwrap().code, "TOOL_NOT_FOUND");
    assert_eq!(bench.peer.journal().received("tools/call").len(), before);
    bench.finish().await;
}
