//! How often a call waits for PostgreSQL: with many agents on one database, that is what a claim costs.

use tsugi_pm::action::claim::ClaimTask;
use tsugi_pm::action::{ErasedAction, Pm};
use tsugi_pm::domain::task::TaskStatus;
use tsugi_pm::store::{StoreMeter, StoreOptions};

use crate::world::{World, caller, finish};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_waits_for_postgres_no_more_than_nine_times_and_a_finish_fifteen() {
    let Some(world) = World::postgres().await else { return };
    for number in 0..10 {
        world.task(&format!("task {number}")).await;
    }
    let meter = StoreMeter::default();
    let options = StoreOptions { meter: Some(meter.clone()), ..StoreOptions::new(world.location.clone()) };
    let pm = Pm::open(options.with_clock(world.clock.clone())).await.unwrap();
    world.session("ann").await;
    let ann = caller("ann");
    let mut costs = Vec::new();
    for _ in 0..10 {
        let before = meter.trips();
        pm.perform_with_notices(&ann, ErasedAction::of(ClaimTask::default())).await.unwrap();
        let between = meter.trips();
        let held = pm.perform(&ann, ClaimTask::default()).await.unwrap().task.unwrap();
        let after = meter.trips();
        pm.perform(&ann, finish(&held.id, TaskStatus::Done)).await.unwrap();
        costs.push((between - before, meter.trips() - after));
    }
    println!("claim, finish: {costs:?}");
    // The first call sweeps besides. With the session of its own process, which need not be looked for, it is one less.
    assert!(costs[1..].iter().all(|(claim, finish)| *claim <= 9 && *finish <= 15), "{costs:?}");
}
