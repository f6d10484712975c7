//! Clocks that are wrong: what a process with one may not do to the others, and how it is found.

use tsugi_pm::action::Pm;
use tsugi_pm::action::create::CreateTask;
use tsugi_pm::domain::fault::Code;
use tsugi_pm::domain::time::Moment;
use tsugi_pm::store::StoreOptions;
use tsugi_pm::store::clock::ManualClock;

use crate::world::{BEGIN, World, caller, claim};

const TWO_HOURS: i64 = 2 * 3600;
const TEN_YEARS: i64 = 3_650 * 86_400;

/// Another process on the same file.
async fn process(world: &World, clock: ManualClock) -> Pm {
    Pm::open(StoreOptions::new(world.location.clone()).with_clock(clock)).await.unwrap()
}

async fn create(pm: &Pm, world: &World, title: &str) -> Moment {
    pm.perform(&caller("manager"), CreateTask::titled(&world.project, title)).await.unwrap().task.created_at
}

#[tokio::test]
async fn a_process_whose_clock_is_ahead_takes_nothing_that_is_held() {
    for seconds in [TWO_HOURS, TEN_YEARS] {
        let world = World::sqlite().await;
        let task = world.task("held").await;
        world.claim("ann", &task).await;
        let ahead = process(&world, world.clock.wrong_by_seconds(seconds)).await;
        let refused = ahead.perform(&caller("bob"), claim(&task.id)).await.unwrap_err();
        assert_eq!(refused.code, Code::AlreadyClaimed, "{refused:?}");
        assert_eq!(create(&ahead, &world, "dated by what has passed").await, BEGIN);
    }
}

#[tokio::test]
async fn a_lease_ends_when_it_should_after_a_process_whose_clock_was_ahead() {
    for seconds in [TWO_HOURS, TEN_YEARS] {
        let world = World::sqlite().await;
        let task = world.task("held").await;
        let lease = world.claim("ann", &task).await.claim.unwrap();
        let ahead = process(&world, world.clock.wrong_by_seconds(seconds)).await;
        create(&ahead, &world, "from another time").await;
        let left = lease.expires_at.seconds_since(BEGIN);
        world.clock.advance_seconds(left - 1);
        // A process that begins now knows nothing of the one that was ahead.
        let honest = process(&world, world.clock.clone()).await;
        let refused = honest.perform(&caller("bob"), claim(&task.id)).await.unwrap_err();
        assert_eq!(refused.code, Code::AlreadyClaimed, "{refused:?}");
        world.clock.advance_seconds(1);
        honest.perform(&caller("bob"), claim(&task.id)).await.unwrap();
        world.check().await;
    }
}

#[tokio::test]
async fn the_process_whose_clock_is_ahead_is_named_even_if_it_was_refused() {
    let world = World::sqlite().await;
    let task = world.task("held").await;
    world.claim("ann", &task).await;
    assert_eq!(world.pm.health().await.unwrap().clocks_ahead, []);
    let ahead = process(&world, world.clock.wrong_by_seconds(TWO_HOURS)).await;
    ahead.perform(&caller("bob"), claim(&task.id)).await.unwrap_err();
    let found = world.pm.health().await.unwrap().clocks_ahead;
    assert_eq!((found.len(), found[0].ahead_s, found[0].pid), (1, TWO_HOURS, i64::from(std::process::id())));
}

/// The clock of a machine that was two hours slow is set right while its programs run.
#[tokio::test]
async fn time_follows_a_clock_that_was_set_right_by_a_minute_in_eight() {
    let world = World::sqlite().await;
    world.task("before").await;
    let corrected = process(&world, world.clock.wrong_by_seconds(TWO_HOURS)).await;
    for (minutes, gained) in [(8, 1), (1, 1), (7, 2), (8, 3)] {
        world.clock.advance_seconds(minutes * 60);
        create(&corrected, &world, &format!("moves the time to {gained} at {minutes}")).await;
        let passed = create(&corrected, &world, &format!("has the time {gained} at {minutes}")).await;
        let uptime = tsugi_pm::store::clock::TimeSource::now(&world.clock);
        assert_eq!(passed.seconds_since(uptime), gained * 60, "after {minutes} more minutes");
    }
}
