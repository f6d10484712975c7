//! The limit is never exceeded, the queue is bounded, and every caller has a turn.

use super::*;
use crate::config::LimitPolicy;
use crate::layer::Boxed;
use parking_lot::Mutex;
use proptest::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tsugi_protocol::answer::Answer;
use tsugi_protocol::answer::{CallFailure, Caller, FaultCode, Outcome};
use tsugi_protocol::json::JsonObject;

/// Takes a while, and counts how many it has at once and whom it served.
#[derive(Default)]
struct Busy {
    now: AtomicUsize,
    most: AtomicUsize,
    served: Mutex<Vec<String>>,
}

struct Inside(Arc<Busy>);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

struct Server(Arc<Busy>);

impl Answer for Server {
    fn answer(&self, call: Call) -> Reply {
        let busy = self.0.clone();
        let now = busy.now.fetch_add(1, Ordering::SeqCst) + 1;
        busy.most.fetch_max(now, Ordering::SeqCst);
        busy.served.lock().push(call.caller.identity().short_name().to_owned());
        let inside = Inside(busy);
        let takes = Duration::from_millis(call.options.timeout.map_or(100, |takes| takes.as_millis() as u64));
        Reply::from_future(async move {
            let _inside = inside;
            tokio::time::sleep(takes).await;
            Outcome::complete(JsonObject::empty())
        })
    }
}

fn policy(in_flight: usize, queue: usize) -> LimitPolicy {
    LimitPolicy { in_flight, queue, wait: Duration::from_secs(3) }
}

fn limit(
    own: Option<LimitPolicy>,
    common: Option<&Arc<ConcurrencyGate>>,
) -> (Arc<Busy>, Boxed<LimitLayer<Arc<Server>>>) {
    let busy = Arc::new(Busy::default());
    let layer =
        LimitLayer::new(Arc::new(Server(busy.clone())), "s".into(), own.map(ConcurrencyGate::new), common.cloned());
    (busy, Boxed(layer))
}

fn call(principal: &str, takes: u64) -> Call {
    let mut call = Call::tool("t", None).from_caller(Caller::of_key(principal));
    call.options.timeout = Some(Duration::from_millis(takes));
    call
}

fn code(outcome: &Outcome) -> Option<(FaultCode, Option<u64>)> {
    match outcome {
        Outcome::Failed(CallFailure::Fault(fault)) => Some((fault.code, fault.retry_after_ms)),
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn more_than_allowed_wait_and_more_than_may_wait_are_refused_at_once() {
    let (busy, layer) = limit(Some(policy(2, 3)), None);
    let replies: Vec<Reply> = (0..10).map(|_| layer.answer(call("ann", 100))).collect();
    let outcomes = futures_util::future::join_all(replies.into_iter().map(Reply::outcome)).await;
    let refused: Vec<_> = outcomes.iter().filter_map(code).collect();
    assert_eq!(refused, vec![(FaultCode::Overloaded, Some(3000)); 5]);
    assert_eq!(busy.most.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_longer_than_the_limit() {
    let (_, layer) = limit(Some(policy(1, 10)), None);
    let slow = layer.answer(call("ann", 60_000));
    let started = tokio::time::Instant::now();
    let outcome = layer.answer(call("ann", 1)).outcome().await;
    assert_eq!(code(&outcome).unwrap().0, FaultCode::Overloaded);
    assert_eq!(started.elapsed().as_secs(), 3);
    drop(slow);
    assert!(code(&layer.answer(call("ann", 1)).outcome().await).is_none(), "the place is free again");
}

#[tokio::test(start_paused = true)]
async fn callers_take_turns_however_much_one_of_them_asks() {
    let (busy, layer) = limit(Some(policy(1, 100)), None);
    let mut replies: Vec<Reply> = vec![layer.answer(call("greedy", 10))];
    replies.extend((0..20).map(|_| layer.answer(call("greedy", 10))));
    let mut waiting = Box::pin(futures_util::future::join_all(replies.into_iter().map(Reply::outcome)));
    // All of the greedy are in line before the modest one comes.
    let _ = futures_util::poll!(&mut waiting);
    let modest = layer.answer(call("modest", 10)).outcome();
    let (_, outcome) = tokio::join!(waiting, modest);
    assert!(code(&outcome).is_none());
    let place = busy.served.lock().iter().position(|principal| principal == "modest").unwrap();
    assert!(place <= 2, "served as number {place}");
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_of_one_caller_makes_room_for_others_until_all_have_as_much() {
    let (_, layer) = limit(Some(policy(1, 4)), None);
    let mut replies: Vec<(&str, Reply)> = Vec::new();
    for principal in ["greedy"; 5].into_iter().chain(["modest"; 5]) {
        let mut reply = layer.answer(call(principal, 10));
        // It stands in line once it is polled; one who was refused gives its place to the next to look.
        if let std::task::Poll::Ready(ReplyEvent::Done(outcome)) = futures_util::poll!(Box::pin(reply.next())) {
            reply = Reply::ready(outcome);
        }
        replies.push((principal, reply));
    }
    let ended = replies.into_iter().map(|(principal, reply)| async move { (principal, reply.outcome().await) });
    let ended = futures_util::future::join_all(ended).await;
    let served = |name: &str| ended.iter().filter(|(who, outcome)| *who == name && code(outcome).is_none()).count();
    // One of the greedy is under way when the others come; then two of each wait.
    assert_eq!((served("greedy"), served("modest")), (3, 2));
    assert!(ended.iter().filter_map(|(_, outcome)| code(outcome)).all(|(code, _)| code == FaultCode::Overloaded));
}

#[tokio::test(start_paused = true)]
async fn all_servers_together_have_a_limit_too() {
    let common = ConcurrencyGate::new(policy(3, 100));
    let (one, first) = limit(Some(policy(2, 100)), Some(&common));
    let (two, second) = limit(Some(policy(2, 100)), Some(&common));
    let replies = (0..20).map(|number| if number % 2 == 0 { &first } else { &second }.answer(call("ann", 100)));
    let outcomes = futures_util::future::join_all(replies.map(Reply::outcome)).await;
    assert!(outcomes.iter().all(|outcome| code(outcome).is_none()));
    let most = one.most.load(Ordering::SeqCst) + two.most.load(Ordering::SeqCst);
    assert!((3..=4).contains(&most));
    assert_eq!(common.load(), (0, 0));
}

/// What one caller does: asks for so long, and gives up after a while.
fn asks() -> impl Strategy<Value = (u8, u64, u64, u64)> {
    (0u8..4, 0u64..500, 0u64..300, 1u64..2_000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Whoever comes, leaves and gives up: never more than allowed are inside, and no place is lost.
    #[test]
    fn the_limit_is_never_exceeded_and_no_place_is_lost(
        asks in proptest::collection::vec(asks(), 1..60),
        in_flight in 1usize..6,
        queue in 0usize..20,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (busy, layer) = limit(Some(policy(in_flight, queue)), None);
            let gate = layer.0.gates.own.clone().unwrap();
            let layer = Arc::new(layer);
            let run = asks.into_iter().map(|(who, begin, takes, patience)| {
                let layer = layer.clone();
                async move {
                    tokio::time::sleep(Duration::from_millis(begin)).await;
                    let outcome = layer.answer(call(&format!("caller{who}"), takes)).outcome();
                    let _ = tokio::time::timeout(Duration::from_millis(patience), outcome).await;
                }
            });
            futures_util::future::join_all(run).await;
            prop_assert!(busy.most.load(Ordering::SeqCst) <= in_flight);
            prop_assert_eq!(gate.load().0, 0, "a place was lost");
            let after = layer.answer(call("after", 1)).outcome().await;
            prop_assert!(code(&after).is_none(), "nobody gets in any more");
            Ok(())
        })?;
    }
}
