//! PostgreSQL over a wire that is cut around a commit: nobody knows how the call ended, and its key tells.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tsugi_pm::action::claim::ClaimTask;
use tsugi_pm::action::create::CreateTask;
use tsugi_pm::action::list::ListTasks;
use tsugi_pm::action::{Action, Pm};
use tsugi_pm::domain::fault::{Code, PmFault};
use tsugi_pm::store::{StoreLocation, StoreOptions};

use crate::world::{World, caller};

/// Where the wire is cut, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Cut {
    Nowhere,
    /// Before the database hears of the commit: nothing was done.
    BeforeCommit,
    /// Right behind it: either may be.
    WithCommit,
    /// After the database has committed, before anybody hears of it: it was done.
    AfterCommit,
}

/// What the driver sends to end a transaction: a simple query.
const COMMIT: &[u8] = b"COMMIT\0";

/// Passes bytes on, until one connection is cut where it was ordered.
async fn forward(listener: TcpListener, target: String, order: Arc<AtomicU8>) {
    while let Ok((near, _)) = listener.accept().await {
        let far = TcpStream::connect(&target).await.unwrap();
        tokio::spawn(pass(near, far, order.clone()));
    }
}

async fn pass(near: TcpStream, far: TcpStream, order: Arc<AtomicU8>) {
    let (mut near_in, mut near_out) = near.into_split();
    let (mut far_in, mut far_out) = far.into_split();
    let (mut down, mut up) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            read = near_in.read(&mut down) => {
                let Ok(count @ 1..) = read else { return };
                let sent = &down[..count];
                let cut = if sent.windows(COMMIT.len()).any(|part| part == COMMIT) { take(&order) } else { Cut::Nowhere };
                if cut == Cut::BeforeCommit || far_out.write_all(sent).await.is_err() || cut == Cut::WithCommit {
                    return;
                }
                if cut == Cut::AfterCommit {
                    // The answer comes when it is committed; it goes no further.
                    let _ = far_in.read(&mut up).await;
                    return;
                }
            }
            read = far_in.read(&mut up) => {
                let Ok(count @ 1..) = read else { return };
                if near_out.write_all(&up[..count]).await.is_err() {
                    return;
                }
            }
        }
    }
}

fn take(order: &AtomicU8) -> Cut {
    match order.swap(0, Ordering::SeqCst) {
        1 => Cut::BeforeCommit,
        2 => Cut::WithCommit,
        3 => Cut::AfterCommit,
        _ => Cut::Nowhere,
    }
}

/// Does it once over the wire that is cut, and again with the same key; answers how the first call ended, and what the
/// second one said.
async fn twice<A: Action + Clone>(pm: &Pm, order: &AtomicU8, cut: Cut, action: A) -> (PmFault, A::Output) {
    order.store(cut as u8, Ordering::SeqCst);
    let Err(fault) = pm.perform(&caller("ann"), action.clone()).await else { panic!("{cut:?}: the wire was cut") };
    assert_eq!(order.load(Ordering::SeqCst), 0, "{cut:?}: the cut was made");
    // Other connections of the pool may be found dead as well; the caller is told to try again.
    for _ in 0..50 {
        match pm.perform(&caller("ann"), action.clone()).await {
            Ok(output) => return (fault, output),
            Err(again) => assert!(again.retryable, "{cut:?}: {again:?}"),
        }
    }
    panic!("{cut:?}: it never came back")
}

fn unknown(fault: &PmFault, cut: Cut) {
    assert_eq!((fault.code, fault.retryable), (Code::Busy, true), "{cut:?}: {fault:?}");
    assert_eq!(fault.details["outcome"], "unknown", "{cut:?}: {fault:?}");
    assert!(fault.hint.contains("idempotency_key"), "{cut:?}: {fault:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wire_cut_around_a_commit_leaves_one_effect_and_the_key_tells_which() {
    let Some(world) = World::postgres().await else { return };
    let StoreLocation::Postgres(address) = &world.location else { panic!("not a server") };
    let (before, rest) = address.split_once('@').unwrap();
    let (target, after) = rest.split_once('/').unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let through = format!("{before}@{}/{after}", listener.local_addr().unwrap());
    let order = Arc::new(AtomicU8::new(0));
    tokio::spawn(forward(listener, target.to_owned(), order.clone()));
    let options = StoreOptions { connections: 2, ..StoreOptions::new(StoreLocation::Postgres(through)) };
    let pm = Pm::open(options.with_clock(world.clock.clone())).await.unwrap();
    let mut expected = 0;
    for round in 0..10 {
        for cut in [Cut::BeforeCommit, Cut::WithCommit, Cut::AfterCommit] {
            let name = format!("{cut:?} {round}");
            let mut create = CreateTask::titled(&world.project, &name);
            create.idempotency_key = Some(format!("create {name}"));
            let (fault, made) = twice(&pm, &order, cut, create).await;
            unknown(&fault, cut);
            expected += 1;
            let titled = ListTasks { limit: Some(200), text: Some(name.clone()), ..ListTasks::default() };
            let found = world.ok("vic", titled).await.tasks;
            assert_eq!(found.iter().filter(|task| task.title == name).count(), 1, "{name}: one effect");
            let take = ClaimTask {
                task_id: Some(made.task.id.clone().into()),
                idempotency_key: Some(format!("claim {name}")),
                ..ClaimTask::default()
            };
            let (fault, taken) = twice(&pm, &order, cut, take).await;
            unknown(&fault, cut);
            assert_eq!(taken.claim.unwrap().fence, 1, "{name}: it was claimed once");
            world.finish("ann", &made.task).await;
        }
    }
    assert_eq!(world.ok("vic", ListTasks { limit: Some(200), ..ListTasks::default() }).await.tasks.len(), expected);
    world.check().await;
}
