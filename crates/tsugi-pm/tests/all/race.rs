//! A lease that runs out in the very moment in which its holder finishes: either may win, but never both.

use std::time::Duration;

use tsugi_pm::action::Pm;
use tsugi_pm::action::claim::ClaimTask;
use tsugi_pm::action::get_task::GetTask;
use tsugi_pm::action::search::GetHistory;
use tsugi_pm::action::status::UpdateTaskStatus;
use tsugi_pm::action::view::TaskView;
use tsugi_pm::domain::fault::{Code, PmFault};
use tsugi_pm::domain::task::TaskStatus;
use tsugi_pm::store::StoreOptions;

use crate::both_stores;
use crate::world::{World, caller, claim, finish};

both_stores!(a_lease_that_runs_out_while_its_holder_finishes_has_one_of_both_effects);

/// Who is there when the lease runs out.
#[derive(Clone, Copy, Debug)]
enum Rival {
    /// Somebody who sweeps.
    Sweeper,
    /// Somebody who wants the task.
    Claimer,
    /// Somebody who wants any task.
    Next,
}

async fn rival(pm: &Pm, rival: Rival, task: &TaskView) -> Result<(), PmFault> {
    match rival {
        Rival::Sweeper => pm.sweep().await.map(drop),
        Rival::Claimer => pm.perform(&caller("bob"), claim(&task.id)).await.map(drop),
        Rival::Next => pm.perform(&caller("bob"), ClaimTask::default()).await.map(drop),
    }
}

/// A random moment, so that each round begins the three in another order.
async fn wait_a_little() {
    tokio::time::sleep(Duration::from_micros(rand::random_range(0..6_000))).await;
}

async fn a_lease_that_runs_out_while_its_holder_finishes_has_one_of_both_effects(world: World) {
    let rounds = if std::env::var_os("TSUGI_LONG").is_some() { 3000 } else { 240 };
    // Two servers on one database, so that the holder's call and the rival's meet only there.
    let open = || Pm::open(StoreOptions::new(world.location.clone()).with_clock(world.clock.clone()));
    let (holders, rivals) = (open().await.unwrap(), open().await.unwrap());
    let (mut finished, mut lost) = (0, 0);
    for round in 0..rounds {
        let kind = [Rival::Sweeper, Rival::Claimer, Rival::Next][round % 3];
        let task = world.task(&format!("task {round}")).await;
        holders.perform(&caller("ann"), claim(&task.id)).await.unwrap();
        world.clock.advance_millis(3_599_999);
        let holder = {
            let (pm, wish) = (holders.clone(), finish(&task.id, TaskStatus::Done));
            tokio::spawn(async move {
                wait_a_little().await;
                pm.perform(&caller("ann"), wish).await
            })
        };
        let (clock, turn) = (world.clock.clone(), round % 12);
        let time = tokio::spawn(async move {
            match turn {
                // Now and then the lease is over before anybody moves, or not before the holder has finished.
                0 => {}
                1 => std::future::pending().await,
                _ => wait_a_little().await,
            }
            clock.advance_millis(1);
        });
        let taker = {
            let (pm, task) = (rivals.clone(), task.clone());
            tokio::spawn(async move {
                wait_a_little().await;
                rival(&pm, kind, &task).await
            })
        };
        let (held, taken) = (holder.await.unwrap(), taker.await.unwrap());
        if turn == 1 {
            time.abort();
            world.clock.advance_millis(1);
        } else {
            time.await.unwrap();
        }
        match &held {
            Ok(_) => finished += 1,
            Err(fault) => {
                assert_eq!(fault.code, Code::ClaimLost, "round {round} {kind:?}: {fault:?}");
                lost += 1;
            }
        }
        is_one_effect(&world, &task, held.is_ok(), round).await;
        if let Err(fault) = taken {
            assert!(held.is_ok() || fault.code == Code::AlreadyClaimed, "round {round} {kind:?}: {fault:?}");
        }
        put_away(&world, &task).await;
    }
    println!("{finished} finished, {lost} lost");
    assert!(finished > 0 && lost > 0 && finished + lost == rounds, "both ends are seen");
    world.check().await;
}

/// The history tells one of the two stories from beginning to end.
async fn is_one_effect(world: &World, task: &TaskView, is_finished: bool, round: usize) {
    let history = GetHistory { entity_id: Some(task.id.to_string()), limit: Some(200), ..GetHistory::default() };
    let kinds: Vec<String> =
        world.ok("vic", history).await.events.into_iter().map(|event| event.kind.to_string()).collect();
    let count = |kind: &str| kinds.iter().filter(|one| one.as_str() == kind).count();
    let seen = world.ok("vic", GetTask::of(task.id.clone())).await.task;
    assert_eq!(seen.status == TaskStatus::Done, is_finished, "round {round}: {kinds:?}");
    assert_eq!(count("task.expired"), usize::from(!is_finished), "round {round}: {kinds:?}");
    assert_eq!(seen.result.is_some(), is_finished, "round {round}: {kinds:?}");
}

/// Makes room for the next round.
async fn put_away(world: &World, task: &TaskView) {
    let cancel = UpdateTaskStatus {
        reason: Some("the round is over".into()),
        ..UpdateTaskStatus::new(task.id.clone(), TaskStatus::Cancelled)
    };
    let seen = world.ok("vic", GetTask::of(task.id.clone())).await.task;
    if seen.status != TaskStatus::Done {
        world.ok("manager", cancel).await;
    }
}
