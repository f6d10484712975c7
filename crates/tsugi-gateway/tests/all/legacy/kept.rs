//! What is kept of streams, and what a client is told that comes back or no longer has to answer.

use std::sync::atomic::{AtomicUsize, Ordering};

use tsugi_protocol::answer::InputRelease;

use super::*;

/// The id of the last event of a stream, and everything that came on it.
async fn whole(session: &Session, id: u64, text: &str) -> (String, String) {
    let params = json!({"name": "progress", "arguments": {}, "_meta": {"progressToken": text}});
    let stream = session.open_post(&request(json!(id), "tools/call", params)).await;
    let got = stream.read_to_end().await;
    let place = got.lines().filter_map(|line| line.strip_prefix("id: ")).next().expect("an id").to_owned();
    (place, got)
}

fn before(place: &str) -> String {
    format!("{}-0", place.split_once('-').unwrap().0)
}

#[tokio::test]
async fn of_finished_streams_so_much_is_kept_as_the_limits_say_and_the_oldest_go_first() {
    let mut config = GatewayConfig::on_free_port();
    config.limits.replays = 8 * 3000;
    let handle = serve_with(config, server()).await;
    let session = Session::open(&handle, "2025-11-25").await;
    let padding = "x".repeat(1000);
    let mut places = Vec::new();
    for id in 0..8 {
        places.push(whole(&session, id, &padding).await.0);
    }
    let answer = |got: String| got.lines().next().unwrap_or_default().to_owned();
    let first = session.open_get(Some(&before(&places[0]))).await.read_to_end().await;
    assert!(answer(first).contains("404"), "an eighth of it is for one session");
    let last = session.open_get(Some(&before(&places[7]))).await.read_to_end().await;
    assert!(last.contains("done") && last.contains(&padding), "{last}");

    let mut sessions = Vec::new();
    for _ in 0..12 {
        let session = Session::open(&handle, "2025-11-25").await;
        let mut last = String::new();
        for id in 0..4 {
            last = whole(&session, id, &padding).await.0;
        }
        sessions.push((session, last));
    }
    let mut kept = Vec::new();
    for (session, place) in &sessions {
        let got = session.open_get(Some(&before(place))).await.read_to_end().await;
        kept.push(!answer(got).contains("404"));
    }
    assert_eq!((kept[0], kept[11]), (false, true), "all of it is for all sessions together: {kept:?}");
}

#[tokio::test]
async fn a_client_that_comes_back_to_its_changes_is_told_of_what_it_watches() {
    let handle = serve(server()).await;
    let session = Session::open(&handle, "2025-11-25").await;
    let got = session.post(&request(json!(1), "resources/subscribe", json!({"uri": "test://mine"}))).await;
    assert_eq!(got.json()["result"], json!({}));
    let mut stream = session.open_get(Some("0-0")).await;
    stream.read_until(r#""method":"notifications/resources/updated","params":{"uri":"test://mine"}"#).await;
}

#[tokio::test]
async fn a_question_that_nobody_answered_in_time_is_withdrawn() {
    let mut config = GatewayConfig::on_free_port();
    config.limits.answer_timeout = Duration::from_millis(100);
    let handle = serve_with(config, server()).await;
    let session = Session::open(&handle, "2025-11-25").await;
    let got = session.post(&request(json!(1), "tools/call", json!({"name": "ask"}))).await;
    let events = got.events();
    let question = &events[0];
    assert_eq!(question["method"], "elicitation/create", "{events:?}");
    assert_eq!(events[1]["method"], "notifications/cancelled", "{events:?}");
    assert_eq!(events[1]["params"]["requestId"], question["id"]);
    assert_eq!(events[2]["error"]["data"]["kind"], "TIMEOUT", "{events:?}");
}

#[tokio::test]
async fn a_question_of_a_call_that_its_client_cancels_is_withdrawn_too() {
    let handle = serve(server()).await;
    let session = Session::open(&handle, "2025-11-25").await;
    let mut stream = session.open_post(&request(json!(7), "tools/call", json!({"name": "ask"}))).await;
    stream.read_until("elicitation/create").await;
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
    assert_eq!(session.post(&cancelled.to_string()).await.status, 202);
    stream.read_until("notifications/cancelled").await;
}

#[tokio::test]
async fn a_call_whose_client_cancels_it_while_it_is_asked_is_given_up_at_once() {
    let released = Arc::new(AtomicUsize::new(0));
    let counted = released.clone();
    let server = script(move |call| match call.method {
        Method::ToolsCall => {
            let counted = counted.clone();
            let params = RawJson::from(json!({"message": "who?"}));
            let mut input = InputRequired::one("who", &Method::Elicit, Some(&params), Some("s".into()));
            input.release = Some(InputRelease::new(move || _ = counted.fetch_add(1, Ordering::SeqCst)));
            Reply::ready(Outcome::InputRequired(input))
        }
        _ => answer(call),
    });
    let handle = serve(server).await;
    let session = Session::open(&handle, "2025-11-25").await;
    let mut stream = session.open_post(&request(json!(7), "tools/call", json!({"name": "ask"}))).await;
    stream.read_until("elicitation/create").await;
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
    assert_eq!(session.post(&cancelled.to_string()).await.status, 202);
    until(|| released.load(Ordering::SeqCst) == 1).await;
}

/// Begins a call that never ends, and leaves it; gives the place on its stream.
async fn leave_a_call(session: &Session) -> String {
    let mut stream = session.open_post(&request(json!(1), "tools/call", json!({"name": "never"}))).await;
    stream.read_until("id: ").await;
    stream.read_until("\n").await.trim().to_owned()
}

#[tokio::test]
async fn calls_that_never_end_and_whose_client_is_gone_are_bounded_and_the_oldest_go_first() {
    let drops = Drops::default();
    let guarded = drops.clone();
    let mut config = GatewayConfig::on_free_port();
    config.limits.patience = Duration::ZERO;
    let server = script(move |call| match call.method {
        Method::ToolsCall => Reply::from_source(Events(VecDeque::new(), Some(guarded.guard()))),
        _ => answer(call),
    });
    let handle = serve_with(config, server).await;
    let session = Session::open(&handle, "2025-11-25").await;
    let first = leave_a_call(&session).await;
    let is_one_given_up = || drops.0.load(Ordering::SeqCst) > 0;
    // That a client is gone is noticed a little later, so there may be a few more.
    let mut last = String::new();
    for begun in 1.. {
        assert!(begun < 500, "nothing is given up");
        last = leave_a_call(&session).await;
        if is_one_given_up() {
            assert!(begun >= 64, "only {begun} were left");
            break;
        }
    }
    let gone = session.open_get(Some(&first)).await.read_to_end().await;
    assert!(gone.starts_with("HTTP/1.1 404"), "{gone}");
    session.open_get(Some(&last)).await.read_until("HTTP/1.1 200").await;
}
