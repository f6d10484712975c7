//! A database that stays locked or falls silent: every call ends with `busy`, none hangs, and nothing happens later.

use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tsugi_pm::action::Pm;
use tsugi_pm::action::create::CreateTask;
use tsugi_pm::action::list::ListTasks;
use tsugi_pm::domain::fault::Code;
use tsugi_pm::store::{StoreLocation, StoreOptions};

use crate::world::{World, caller, postgres_address};

const BRIEF: Duration = Duration::from_millis(200);

/// Calls at once, more than there are connections.
const CALLS: usize = 30;

async fn all_hear_busy(world: &World, pm: &Pm) {
    let calls = (0..CALLS).map(|at| {
        let (pm, create) = (pm.clone(), CreateTask::titled(&world.project, &format!("late {at}")));
        tokio::spawn(async move { pm.perform(&caller("manager"), create).await })
    });
    for call in calls.collect::<Vec<_>>() {
        let fault = call.await.unwrap().unwrap_err();
        assert_eq!((fault.code, fault.to_json()["retryable"].as_bool()), (Code::Busy, Some(true)), "{fault:?}");
    }
}

async fn titles(world: &World) -> Vec<String> {
    let listed = world.ok("manager", ListTasks { limit: Some(200), ..ListTasks::default() }).await;
    listed.tasks.into_iter().map(|task| task.title).collect()
}

#[tokio::test]
async fn calls_on_a_file_that_stays_locked_all_end_and_none_is_done_afterwards() {
    let world = World::sqlite().await;
    let StoreLocation::Sqlite(path) = &world.location else { panic!("not a file") };
    let options = StoreOptions { longest_wait: BRIEF, ..StoreOptions::new(world.location.clone()) };
    let pm = Pm::open(options).await.unwrap();
    let other = rusqlite::Connection::open(path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    all_hear_busy(&world, &pm).await;
    other.execute_batch("ROLLBACK").unwrap();
    pm.perform(&caller("manager"), CreateTask::titled(&world.project, "after")).await.unwrap();
    assert_eq!(titles(&world).await, ["after"]);
}

#[tokio::test]
async fn calls_on_a_postgres_row_that_stays_locked_all_end_and_none_is_done_afterwards() {
    let Some(world) = World::postgres().await else { return };
    let options = StoreOptions { longest_wait: BRIEF, connections: 4, ..StoreOptions::new(world.location.clone()) };
    let pm = Pm::open(options).await.unwrap();
    let (mut other, connection) = tokio_postgres::connect(&world.database(), tokio_postgres::NoTls).await.unwrap();
    let driving = tokio::spawn(connection);
    let holding = other.transaction().await.unwrap();
    holding.batch_execute("SELECT 1 FROM project FOR UPDATE").await.unwrap();
    all_hear_busy(&world, &pm).await;
    holding.rollback().await.unwrap();
    drop(other);
    driving.await.unwrap().unwrap();
    pm.perform(&caller("manager"), CreateTask::titled(&world.project, "after")).await.unwrap();
    assert_eq!(titles(&world).await, ["after"]);
}

#[tokio::test]
async fn a_postgres_that_is_not_there_is_named_with_the_reason() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = listener.local_addr().unwrap();
    drop(listener);
    let address = format!("postgres://ann:secret@{place}/pm");
    let error = Pm::open(StoreOptions::new(StoreLocation::Postgres(address))).await.err().unwrap();
    let said = error.to_string();
    assert!(said.contains(&format!("cannot reach the database at {place}: ")) && said.contains("refused"), "{said}");
    assert!(!said.contains("secret"), "{said}");
    assert_eq!(error.hint(), "is PostgreSQL running there, and may this user connect?");
}

/// Passes bytes on until told to keep them.
async fn forward(listener: TcpListener, target: String, is_silent: watch::Receiver<bool>) {
    while let Ok((mut near, _)) = listener.accept().await {
        let (target, mut is_silent) = (target.clone(), is_silent.clone());
        tokio::spawn(async move {
            let Ok(mut far) = TcpStream::connect(target).await else { return };
            let told = async { drop(is_silent.wait_for(|is_silent| *is_silent).await) };
            tokio::select! {
                _ = copy_bidirectional(&mut near, &mut far) => {}
                () = told => std::future::pending().await,
            }
        });
    }
}

#[tokio::test]
async fn calls_on_a_postgres_that_falls_silent_all_end() {
    let Some(address) = postgres_address().await else { return };
    let (before, rest) = address.split_once('@').unwrap();
    let (target, after) = rest.split_once('/').unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let through = format!("{before}@{}/{after}", listener.local_addr().unwrap());
    let (silence, is_silent) = watch::channel(false);
    tokio::spawn(forward(listener, target.to_owned(), is_silent));
    let world = World::sqlite().await;
    let options =
        StoreOptions { longest_wait: BRIEF, connections: 2, ..StoreOptions::new(StoreLocation::Postgres(through)) };
    let pm = Pm::open(options).await.unwrap();
    silence.send(true).unwrap();
    all_hear_busy(&world, &pm).await;
}
