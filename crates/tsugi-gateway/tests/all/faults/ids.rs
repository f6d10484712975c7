//! Callers that all use the same ids: D-11.

use futures_util::future::join_all;
use serde_json::json;

use super::{BASE, Subject, Verdict, ensure, legacy_call, open_session, tool_call};
use crate::world::*;

/// D-11: 64 clients have a call with the same id in flight. Each gets its own answer.
pub(crate) async fn equal_ids_of_many(subject: &Subject, size: usize) -> Verdict {
    subject.works().await?;
    let before = subject.upstream.calls();
    let mut open = Vec::new();
    for index in 0..size {
        let call = tool_call(json!(1), "held", json!({"text": format!("mark-{index}-")}));
        open.push(subject.client.open_modern("/mcp", &call).await);
    }
    subject.upstream.wait_for_calls(before + size).await;
    subject.upstream.release();
    let reading = open.into_iter().map(Exchange::read_to_end);
    let answers = tokio::time::timeout(std::time::Duration::from_secs(5), join_all(reading)).await;
    let answers = answers.map_err(|_| "some calls are unanswered".to_owned())?;
    for (index, answer) in answers.iter().enumerate() {
        ensure(answer.contains(&format!("mark-{index}-")), || format!("the answer of another: {answer}"))?;
    }
    Ok(())
}

#[tokio::test]
async fn d11_clients_with_equal_ids_get_their_own_answers() {
    equal_ids_of_many(&Subject::tsugi().await, 64).await.unwrap();
}

#[tokio::test]
async fn d11_forty_calls_of_one_session_with_one_id_are_all_answered_rightly() {
    let subject = Subject::tsugi().await;
    let session = open_session(&subject.client, "2025-06-18", &[]).await;
    let headers = [BASE[0], BASE[1], ("Mcp-Session-Id", session.as_str())];
    let mut open = Vec::new();
    for index in 0..40 {
        let body = legacy_call(json!(1), "held", json!({"text": format!("mark-{index}-")})).to_string();
        open.push(Exchange::send(subject.client.0, &subject.client.request("POST", "/mcp", &headers, &body)).await);
    }
    subject.upstream.wait_for_calls(40).await;
    subject.upstream.release();
    for (index, exchange) in open.into_iter().enumerate() {
        let answer = exchange.read_to_end().await;
        assert!(answer.contains(&format!("mark-{index}-")), "{answer}");
    }
}

#[tokio::test]
async fn d11_a_number_and_a_text_are_two_ids() {
    let subject = Subject::tsugi().await;
    for id in [json!(1), json!("1"), json!(-1), json!("a\"b\\c\u{2028}"), json!(9_007_199_254_740_993_u64)] {
        let got = subject.client.modern("/mcp", &tool_call(id.clone(), "echo", json!({"text": "x"}))).await;
        assert_eq!(got.json()["id"], id);
    }
}
