//! Which call a question belongs to, on every wire: one table of situations, and a crowd of clients with secrets.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rand::RngExt;
use serde_json::json;
use tsugi_client::ManagerOptions;
use tsugi_protocol::answer::{Answer, Call, Caller, Identity, Outcome};
use tsugi_protocol::json::RawJson;
use tsugi_protocol::mcp::input::{InputResponses, Question};
use tsugi_testkit::wait;

use super::cell::Cell;
use super::questions::form;
use super::turns::{legacy, modern, unaskable};
use crate::outcome::{asked, end_of, text};
use crate::world::{LIMIT, call, options};

/// How a call is expected to end that makes its server ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// Its client is asked.
    Asked,
    /// Its client is not, because the question may be another client's.
    Refused,
    /// Its client is not, because it cannot be.
    Unable,
}

/// A call that sleeps until it is dropped.
fn asleep() -> Call {
    call("sleep", json!({"ms": 600_000}))
}

/// A call whose server asks on the stream that all calls share, whatever the wire.
fn asks() -> Call {
    call("ask", json!({"aside": true, "secret": "the secret"}))
}

fn anonymous(call: Call) -> Call {
    call.from_caller(Caller::of(Identity::Anonymous))
}

fn cases() -> Vec<(&'static str, Vec<Call>, Call, Ends)> {
    vec![
        ("alone", vec![], anonymous(asks()), Ends::Asked),
        ("two clients without a key", vec![anonymous(asleep())], anonymous(asks()), Ends::Refused),
        ("two clients with one key", vec![modern("key", asleep())], modern("key", asks()), Ends::Refused),
        ("two keys", vec![modern("ann", asleep())], modern("bob", asks()), Ends::Refused),
        ("a client that cannot be asked", vec![unaskable(anonymous(asleep()))], anonymous(asks()), Ends::Asked),
        ("one session", vec![legacy("s", asleep())], legacy("s", asks()), Ends::Asked),
        ("two sessions", vec![legacy("s", asleep())], legacy("t", asks()), Ends::Refused),
        ("a session and a modern client", vec![legacy("s", asleep())], anonymous(asks()), Ends::Refused),
        ("a client that cannot be asked alone", vec![], unaskable(anonymous(asks())), Ends::Unable),
    ]
}

fn ends(outcome: &Outcome) -> Ends {
    match outcome {
        Outcome::InputRequired(_) => Ends::Asked,
        other if text(other).contains("cannot be told which call") => Ends::Refused,
        other if text(other).contains("does not support") || text(other).contains("cannot be asked") => Ends::Unable,
        other => panic!("neither asked nor refused: {other:?}"),
    }
}

#[tokio::test]
async fn a_question_reaches_the_client_whose_call_caused_it_or_none_on_every_wire() {
    for (name, beside, asking, expected) in cases() {
        for cell in Cell::legacy(&options()).await {
            let start = |call: &Call| tokio::spawn(cell.server.answer(call.clone()).outcome());
            let mut calls: Vec<_> = beside.iter().map(start).collect();
            assert!(wait::until(|| cell.server.status().in_flight == calls.len()).await, "{name}, {}", cell.name);
            calls.push(start(&asking));
            // In one session the question may come with either call: the client that sees it is the same.
            let ending = tokio::time::timeout(LIMIT, futures_util::future::select_all(&mut calls));
            let (outcome, ..) = ending.await.unwrap_or_else(|_| panic!("{name}, {}: no call ends", cell.name));
            let outcome = outcome.unwrap();
            assert_eq!(ends(&outcome), expected, "{name}, {}", cell.name);
            if let Outcome::InputRequired(input) = &outcome {
                assert_eq!(message_of(&outcome), "the secret", "{name}, {}", cell.name);
                input.release.as_ref().unwrap().release();
            }
            calls.iter().for_each(|call| call.abort());
            cell.finish().await;
        }
    }
}

fn message_of(outcome: &Outcome) -> String {
    asked(outcome).questions()[0].params_object().get_str("message").unwrap().into_owned()
}

/// What a crowd met.
#[derive(Default)]
struct Tally {
    asked: AtomicUsize,
    refused: AtomicUsize,
    crossed: AtomicUsize,
}

/// One client: it calls, checks that it is asked for its own secrets alone, and sometimes cancels or leaves.
struct Client<'a> {
    cell: &'a Cell,
    tally: &'a Tally,
    dress: Box<dyn Fn(Call) -> Call + Send + Sync>,
    name: String,
}

impl Client<'_> {
    /// Calls until the crowd was asked often enough. `twice` for a client with two calls at a time.
    async fn run(&self, enough: usize, twice: bool) {
        let mut number = 0;
        while self.tally.asked.load(Ordering::Relaxed) < enough {
            number += 1;
            let secrets: HashSet<String> =
                (0..=usize::from(twice)).map(|at| format!("{} {number}.{at}", self.name)).collect();
            futures_util::future::join_all(secrets.iter().map(|secret| self.once(secret, &secrets))).await;
        }
    }

    async fn once(&self, secret: &str, own: &HashSet<String>) {
        let (pause, work, fate) = {
            let mut random = rand::rng();
            (random.random_range(0..3u64), random.random_range(0..3u64), random.random_range(0..40u32))
        };
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let asking = (self.dress)(call("ask", json!({"aside": true, "secret": secret, "ms": work})));
        let calling = self.cell.server.answer(asking.clone());
        // One in forty cancels its call, another one leaves without an answer.
        let limit = if fate == 0 { Duration::from_millis(pause + work) } else { LIMIT };
        let Some(outcome) = end_of(calling, limit).await else { return };
        match &outcome {
            Outcome::InputRequired(input) => {
                self.tally.asked.fetch_add(1, Ordering::Relaxed);
                self.check_owner(&outcome, own);
                if fate == 1 {
                    return input.release.as_ref().unwrap().release();
                }
                let mut end = self.cell.outcome(filled_in(&asking, &outcome)).await;
                // The question of a session's other call may come with this one.
                while let Outcome::InputRequired(_) = &end {
                    self.check_owner(&end, own);
                    end = self.cell.outcome(filled_in(&asking, &end)).await;
                }
                // Its server may have got no answer in time, or a refusal.
                let Outcome::Complete(_) = &end else { return };
                let told = text(&end);
                if !told.contains("-32603") && !own.iter().any(|secret| told.contains(secret)) {
                    eprintln!("{}: {} got {told}", self.cell.name, self.name);
                    self.tally.crossed.fetch_add(1, Ordering::Relaxed);
                }
            }
            _ => drop(self.tally.refused.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

impl Client<'_> {
    /// Counts questions that carry the secret of another client. Two calls of one session may be asked together.
    fn check_owner(&self, outcome: &Outcome, own: &HashSet<String>) {
        for message in messages_of(outcome).iter().filter(|message| !own.contains(*message)) {
            eprintln!("{}: {} was asked {message:?}", self.cell.name, self.name);
            self.tally.crossed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn messages_of(outcome: &Outcome) -> Vec<String> {
    let message = |question: &Question| question.params_object().get_str("message").unwrap().into_owned();
    asked(outcome).questions().iter().map(message).collect()
}

/// The call again, with every question answered by the secret that it carries.
fn filled_in(call: &Call, outcome: &Outcome) -> Call {
    let asked = asked(outcome);
    let mut answers = InputResponses::default();
    for (question, message) in asked.questions().iter().zip(messages_of(outcome)) {
        answers.add(&question.key, &RawJson::from(form(&message)));
    }
    call.clone().retry_with(Some(&answers.finish()), asked.state.as_deref())
}

/// Eight clients on one server: without a key, with one key, with their own keys, and legacy sessions.
async fn crowd(cell: &Cell, tally: &Tally, enough: usize) {
    let dresses: Vec<Box<dyn Fn(Call) -> Call + Send + Sync>> = vec![
        Box::new(anonymous),
        Box::new(anonymous),
        Box::new(|call| modern("team", call)),
        Box::new(|call| modern("team", call)),
        Box::new(|call| modern("ann", call)),
        Box::new(|call| modern("bob", call)),
        Box::new(|call| legacy("one", call)),
        Box::new(|call| legacy("two", call)),
    ];
    let clients = dresses.into_iter().enumerate().map(|(number, dress)| async move {
        let client = Client { cell, tally, dress, name: format!("client {number}") };
        client.run(enough, number == 6).await;
    });
    futures_util::future::join_all(clients).await;
}

/// With `TSUGI_LONG=1` a hundred thousand questions, otherwise a few hundred.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_questions_over_every_wire_none_reaches_another_client() {
    let is_long = std::env::var("TSUGI_LONG").is_ok_and(|value| value == "1");
    let (servers, questions) = if is_long { (4, 100_000) } else { (1, 300) };
    let options = ManagerOptions { input_patience: Duration::from_secs(1), ..options() };
    let mut cells = Vec::new();
    for _ in 0..servers {
        cells.extend(Cell::legacy(&options).await);
    }
    let tallies: Vec<Arc<Tally>> = cells.iter().map(|_| Arc::default()).collect();
    let enough = questions / cells.len();
    futures_util::future::join_all(cells.iter().zip(&tallies).map(|(cell, tally)| crowd(cell, tally, enough))).await;
    let sum = |count: fn(&Tally) -> &AtomicUsize| {
        tallies.iter().map(|tally| count(tally).load(Ordering::Relaxed)).sum::<usize>()
    };
    let (asked, refused, crossed) =
        (sum(|tally| &tally.asked), sum(|tally| &tally.refused), sum(|tally| &tally.crossed));
    eprintln!("{asked} questions, {refused} refused, {crossed} at another client");
    assert_eq!(crossed, 0);
    assert!(asked >= enough * cells.len(), "{asked} of {questions}");
    for cell in cells {
        cell.finish().await;
    }
}
