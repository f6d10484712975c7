//! The change feed: in order, without gaps, across processes, from any point.

use std::collections::HashMap;
use std::time::Duration;

use tsugi_pm::action::Pm;
use tsugi_pm::action::create::CreateTask;
use tsugi_pm::action::search::GetNotifications;
use tsugi_pm::domain::event::EventKind;
use tsugi_pm::domain::event::HistoryEvent;
use tsugi_pm::store::StoreOptions;
use tsugi_pm::store::feed::EventFeed;

use crate::both_stores;
use crate::world::{World, caller, claim};

both_stores!(
    a_subscriber_sees_every_event_in_order_also_of_other_processes,
    a_subscriber_may_begin_anywhere_and_stay_in_one_project,
    a_waiting_agent_is_woken_by_its_notice,
);

async fn next(feed: &mut EventFeed) -> HistoryEvent {
    tokio::time::timeout(Duration::from_secs(30), feed.next()).await.expect("an event comes").unwrap()
}

/// Two stores on one database stand for two processes: nothing but the database is shared between them.
async fn a_subscriber_sees_every_event_in_order_also_of_other_processes(world: World) {
    const WRITERS: usize = 8;
    const EACH: usize = 15;
    let elsewhere = Pm::open(StoreOptions::new(world.location.clone()).with_clock(world.clock.clone())).await.unwrap();
    let since = world.pm.last_seq().await.unwrap();
    let mut feed = world.pm.subscribe(since);
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let pm = if writer % 2 == 0 { world.pm.clone() } else { elsewhere.clone() };
            let project = world.project.clone();
            tokio::spawn(async move {
                for number in 0..EACH {
                    let mut wish = CreateTask::titled(&project, &format!("{writer}-{number}"));
                    // Every third is refused after it began, which leaves a hole in PostgreSQL's numbers or none.
                    wish.task.parent_id = (number % 3 == 0).then(|| "WEB-99999".to_owned().try_into().unwrap());
                    let _ = pm.perform(&caller("manager"), wish).await;
                }
            })
        })
        .collect();
    let expected = WRITERS * (EACH - EACH / 3);
    let mut seen: Vec<HistoryEvent> = Vec::new();
    while seen.len() < expected {
        seen.push(next(&mut feed).await);
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert!(seen.windows(2).all(|pair| pair[0].seq < pair[1].seq), "in order");
    let mut last: HashMap<&str, &str> = HashMap::new();
    for event in &seen {
        assert_eq!(event.kind, EventKind::TaskCreated);
        let before = last.insert(&event.entity_id, &event.hash).unwrap_or("");
        assert_eq!(event.prev_hash, before, "no event of a thing is missing before this one");
    }
    let mut again = world.pm.subscribe(since);
    for event in &seen {
        assert_eq!(next(&mut again).await, *event, "who reads later reads the same");
    }
}

async fn a_subscriber_may_begin_anywhere_and_stay_in_one_project(world: World) {
    let task = world.task("one").await;
    let middle = world.pm.last_seq().await.unwrap();
    world.session("ann").await;
    world.claim("ann", &task).await;
    let mut feed = world.pm.subscribe(middle).of_project(world.project.clone());
    let kinds = [next(&mut feed).await.kind, next(&mut feed).await.kind, next(&mut feed).await.kind];
    assert_eq!(kinds, [EventKind::SessionStarted, EventKind::ClaimGranted, EventKind::TaskClaimed]);
}

async fn a_waiting_agent_is_woken_by_its_notice(world: World) {
    let task = world.task("one").await;
    world.claim("ann", &task).await;
    let pm = world.pm.clone();
    let waiting = tokio::spawn(async move {
        let wish = GetNotifications { since: None, wait_seconds: Some(50) };
        pm.wait_for_notifications(&caller("ann"), wish).await.unwrap()
    });
    let take = tsugi_pm::action::admin::ForceRelease { task_id: task.id.clone().into(), reason: "now".into() };
    world.ok("manager", take).await;
    let heard = waiting.await.unwrap();
    assert_eq!(heard.notices.len(), 1);
    world.ok("bob", claim(&task.id)).await;
}
