//! A disk that fails: power cuts, a full disk, I/O errors, a read-only file, a migration that is killed, an old binary.

use std::path::Path;

use tsugi_pm::action::Pm;
use tsugi_pm::action::caller::ActionCaller;
use tsugi_pm::action::claim::ClaimTask;
use tsugi_pm::action::create::CreateTask;
use tsugi_pm::action::get_task::GetTask;
use tsugi_pm::action::list::ListTasks;
use tsugi_pm::domain::fault::Code;
use tsugi_pm::domain::id::{ProjectId, TaskId};
use tsugi_pm::domain::task::TaskStatus;
use tsugi_pm::store::migrate::KNOWN;
use tsugi_pm::store::{StoreLocation, StoreMeter, StoreOpenError, StoreOptions};

use crate::child::Other;
use crate::vfs::{self, Luck, Player};
use crate::world::{World, caller, claim, finish, folder, found, postgres_address};

fn long() -> bool {
    std::env::var_os("TSUGI_LONG").is_some()
}

fn options(path: &Path) -> StoreOptions {
    StoreOptions { connections: 1, ..StoreOptions::new(StoreLocation::Sqlite(path.to_owned())) }
}

fn on_test_disk(path: &Path) -> StoreOptions {
    StoreOptions { vfs: Some(vfs::register()), ..options(path) }
}

async fn create(pm: &Pm, project: &ProjectId, title: &str) -> Result<TaskId, Code> {
    let mut wish = CreateTask::titled(project, title);
    wish.task.similar_ok = true;
    pm.perform(&caller("manager"), wish).await.map(|made| made.task.id).map_err(|fault| fault.code)
}

async fn is_sound(pm: &Pm) {
    let found = pm.verify().await.unwrap();
    assert!(found.problems.is_empty(), "{:#?}", found.problems);
}

/// I12, second half; S-02: at least a thousand cuts, before every kind of step of commits and of checkpoints.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i12_an_acknowledged_write_survives_a_power_cut_at_any_step() {
    let _turn = vfs::alone().await;
    let folder = folder();
    vfs::take_record();
    let pm = Pm::open(on_test_disk(&folder.path().join("pm.db"))).await.unwrap();
    let project = found(&pm).await;
    vfs::acknowledge("project");
    for number in 0..90 {
        let task = create(&pm, &project, &format!("task {number}")).await.unwrap();
        vfs::acknowledge(&format!("created {task}"));
        pm.perform(&caller("ann"), claim(&task)).await.unwrap();
        vfs::acknowledge(&format!("claimed {task}"));
        pm.perform(&caller("ann"), finish(&task, TaskStatus::Done)).await.unwrap();
        vfs::acknowledge(&format!("finished {task}"));
    }
    drop(pm);
    let record = vfs::take_record();
    let begin = record.iter().position(|step| matches!(step, vfs::Step::Acknowledged(_))).unwrap();
    let checkpoints =
        record.iter().filter(|step| matches!(step, vfs::Step::Write { file, .. } if file.ends_with("pm.db"))).count();
    assert!(checkpoints > 50, "the run must include checkpoints, {checkpoints} pages were written back");
    let wanted = if long() { 10_000 } else { 1_000 };
    let span = record.len() - begin;
    let mut player = Player::new(&record);
    for at in 0..wanted {
        let cut = begin + 1 + at * (span - 1) / wanted;
        let luck = [Luck::None, Luck::Some(at as u64 * 7919 + 1), Luck::All][at % 3];
        player.advance_to(cut);
        check_cut(&player, cut, luck).await;
    }
    println!("{wanted} cuts in {span} steps, none lost");
}

async fn check_cut(player: &Player<'_>, cut: usize, luck: Luck) {
    let folder = folder();
    player.power_cut(luck, folder.path());
    let pm = Pm::open(options(&folder.path().join("pm.db")))
        .await
        .unwrap_or_else(|error| panic!("cut {cut} {luck:?}: {error}"));
    let complaints = pm.store().check().await.unwrap();
    assert!(complaints.is_empty(), "cut {cut} {luck:?}: {complaints:?}");
    for told in player.acknowledged.iter().rev().take(3) {
        let Some((verb, id)) = told.split_once(' ') else { continue };
        let task = GetTask::of(TaskId::parse(id).unwrap());
        let task = pm
            .perform(&caller("vic"), task)
            .await
            .unwrap_or_else(|fault| panic!("cut {cut} {luck:?}: {told} is lost: {fault}"));
        let is_kept = match verb {
            "claimed" => task.task.fence == 1,
            "finished" => task.task.status == TaskStatus::Done,
            _ => true,
        };
        assert!(is_kept, "cut {cut} {luck:?}: {told} is lost");
    }
    if cut.is_multiple_of(25) {
        is_sound(&pm).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_a_clear_refusal_and_work_goes_on_when_there_is_room() {
    let _turn = vfs::alone().await;
    let folder = folder();
    let path = folder.path().join("pm.db");
    let pm = Pm::open(on_test_disk(&path)).await.unwrap();
    let project = found(&pm).await;
    let (mut made, mut refusals) = (0, 0);
    for room in 0..12 {
        let (data, log) = pm.store().size().await.unwrap();
        vfs::set_capacity((data.max(log) + room * 20_000) as i64);
        loop {
            match create(&pm, &project, "task").await {
                Ok(_) => made += 1,
                Err(code) => {
                    assert_eq!(code, Code::StorageFull);
                    break;
                }
            }
        }
        refusals += 1;
        let seen = pm
            .perform(&ActionCaller::operator(), ListTasks { limit: Some(200), ..ListTasks::default() })
            .await
            .unwrap();
        assert_eq!(seen.tasks.len(), made.min(200), "reads go on, and nothing half-done is seen");
    }
    vfs::set_capacity(-1);
    create(&pm, &project, "task").await.unwrap();
    assert!(made > 0 && refusals == 12);
    is_sound(&pm).await;
}

/// S-03: an I/O error at every step of a claim.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_io_error_at_any_step_is_a_clean_error_or_a_success() {
    let _turn = vfs::alone().await;
    let folder = folder();
    let pm = Pm::open(on_test_disk(&folder.path().join("pm.db"))).await.unwrap();
    let project = found(&pm).await;
    let mut failures = 0;
    for step in 0.. {
        vfs::fail_at(step);
        let made = create(&pm, &project, &format!("task {step}")).await;
        let has_failed = !vfs::is_failure_pending();
        vfs::fail_at(-1);
        if made.is_err() {
            failures += 1;
        }
        is_sound(&pm).await;
        if !has_failed {
            break;
        }
    }
    assert!(failures > 3, "only {failures} steps failed");
    println!("{failures} steps failed cleanly");
    create(&pm, &project, "at last").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_killed_at_any_step_leaves_a_file_that_opens() {
    let mut step = 1;
    let mut kills = 0;
    loop {
        let folder = folder();
        let path = folder.path().join("pm.db");
        let mut child = Other::start("migrate", &path, &[&step.to_string()]);
        let is_whole = child.hear().as_deref() == Some("open");
        child.wait();
        let pm = Pm::open(options(&path)).await.unwrap_or_else(|error| panic!("killed at step {step}: {error}"));
        let project = found(&pm).await;
        create(&pm, &project, "first").await.unwrap();
        if is_whole {
            break;
        }
        kills += 1;
        // Every step at first, then wider, since a migration writes hundreds of like pages.
        step += if long() || step < 12 { 1 } else { 5 };
    }
    println!("{kills} kills");
    assert!(kills > 15, "the migration has more steps than {kills}");
}

/// The disk becomes full at any write of the backup or of the migration: the file stays as it was, an older binary goes
/// on with it, nothing half-made is left behind, and with room again the migration is done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_is_full_during_a_migration_leaves_the_old_file_and_it_is_done_later() {
    let _turn = vfs::alone().await;
    let (mut refusals, mut writes) = (0, 0);
    loop {
        let folder = folder();
        let path = folder.path().join("pm.db");
        let older = StoreOptions { known_migrations: 2, ..on_test_disk(&path) };
        let pm = Pm::open(older.clone()).await.unwrap();
        let project = found(&pm).await;
        create(&pm, &project, "before").await.unwrap();
        drop(pm);
        vfs::full_after(writes);
        let opened = Pm::open(on_test_disk(&path)).await;
        let was_full = vfs::is_full();
        vfs::full_after(-1);
        let is_done = match opened {
            Ok(_) => true,
            Err(refused) => {
                assert_eq!(refused.code(), Code::StorageFull, "after {writes} writes: {refused}");
                is_as_before(folder.path(), older, writes).await;
                refusals += 1;
                false
            }
        };
        let pm = Pm::open(on_test_disk(&path)).await.unwrap_or_else(|error| panic!("after {writes} writes: {error}"));
        assert_eq!(pm.health().await.unwrap().schema, KNOWN as i64);
        assert_eq!(pm.perform(&caller("vic"), ListTasks::default()).await.unwrap().tasks.len(), 1);
        create(&pm, &project, "after").await.unwrap();
        is_sound(&pm).await;
        if is_done && !was_full {
            break;
        }
        // Every write at first, then wider, since the backup is a hundred like pages.
        writes += if long() || writes < 20 { 1 } else { 7 };
    }
    println!("{refusals} refusals in {writes} writes");
    assert!(refusals > 20, "only {refusals} refusals");
}

async fn is_as_before(folder: &Path, older: StoreOptions, writes: i64) {
    let half: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains(".backup.") || name.ends_with("-journal"))
        .collect();
    assert!(half.is_empty(), "after {writes} writes: {half:?}");
    match Pm::open(older).await {
        Ok(pm) => assert_eq!(pm.perform(&caller("vic"), ListTasks::default()).await.unwrap().tasks.len(), 1),
        // One of several steps was taken before the disk was full; each is whole.
        Err(error) => assert!(matches!(error, StoreOpenError::Newer { .. }), "after {writes} writes: {error}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_binary_refuses_a_newer_schema_on_postgres_too() {
    let Some(world) = World::postgres().await else { return };
    let before = world.pm.last_seq().await.unwrap();
    let older = StoreOptions { known_migrations: KNOWN - 1, ..StoreOptions::new(world.location.clone()) };
    let refused = Pm::open(older).await.err().unwrap();
    assert!(matches!(refused, StoreOpenError::Newer { found, .. } if found == KNOWN as i64), "{refused}");
    assert!(refused.hint().contains("newer tsugi"));
    assert_eq!(world.pm.last_seq().await.unwrap(), before);
    world.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_binary_refuses_a_newer_schema_and_changes_nothing() {
    let folder = folder();
    let path = folder.path().join("pm.db");
    let older = StoreOptions { known_migrations: 1, ..options(&path) };
    drop(Pm::open(older.clone()).await.unwrap());
    let backup = folder.path().join("pm.db.schema-1.backup");
    assert!(!backup.exists());
    let pm = Pm::open(options(&path)).await.unwrap();
    found(&pm).await;
    assert!(backup.exists(), "a copy is made before the schema changes");
    let refused = Pm::open(older).await.err().unwrap();
    assert!(matches!(refused, StoreOpenError::Newer { found, known: 1 } if found == KNOWN as i64), "{refused}");
    assert!(refused.hint().contains("newer tsugi"));
    is_sound(&pm).await;
}

/// A file system that cannot be written is played by a file that SQLite was told to take for immutable, since the
/// superuser who runs these tests may write anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_database_can_be_read_and_says_no_to_writes() {
    let folder = folder();
    let path = folder.path().join("pm.db");
    let pm = Pm::open(options(&path)).await.unwrap();
    let project = found(&pm).await;
    create(&pm, &project, "task").await.unwrap();
    drop(pm);
    let uri = format!("file:{}?immutable=1&mode=ro", path.display());
    let pm = Pm::open(StoreOptions::new(StoreLocation::Sqlite(uri.into()))).await.unwrap();
    assert_eq!(pm.perform(&caller("vic"), ListTasks::default()).await.unwrap().tasks.len(), 1);
    assert_eq!(create(&pm, &project, "another").await, Err(Code::StorageReadonly));
    let ready = pm.perform(&caller("ann"), tsugi_pm::action::list::GetReadyTasks::default()).await.unwrap();
    assert_eq!(ready.tasks.len(), 1);
}

/// The cost of creating, looking and claiming does not grow with the number of tasks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cost_of_a_call_is_flat_from_a_thousand_to_a_hundred_thousand_tasks() {
    let folder = folder();
    let path = folder.path().join("pm.db");
    let meter = StoreMeter::default();
    let pm = Pm::open(StoreOptions { meter: Some(meter.clone()), ..options(&path) }).await.unwrap();
    let project = found(&pm).await;
    let mut costs = Vec::new();
    for (from, to) in [(0, 1_000), (1_000, 10_000), (10_000, 100_000)] {
        grow(&path, &project, from, to);
        costs.push((to, cost(&pm, &meter, &project).await));
    }
    for (tasks, cost) in &costs {
        println!("{tasks} tasks: create {} steps, ready {}, claim {}", cost[0], cost[1], cost[2]);
    }
    for at in 0..3 {
        let (small, large) = (costs[0].1[at], costs[2].1[at]);
        assert!(large <= small + small / 10, "cost grew from {small} to {large} steps");
    }
}

async fn cost(pm: &Pm, meter: &StoreMeter, project: &ProjectId) -> [u64; 3] {
    // The first call of each kind prepares statements and may sweep.
    for _ in 0..2 {
        create(pm, project, &format!("warm {}", meter.steps())).await.unwrap();
        let taken = pm.perform(&caller("ann"), ClaimTask::default()).await.unwrap();
        pm.perform(&caller("ann"), finish(&taken.task.unwrap().id, TaskStatus::Done)).await.unwrap();
    }
    let mut costs = [0; 3];
    let before = meter.steps();
    create(pm, project, &format!("new {before}")).await.unwrap();
    costs[0] = meter.steps() - before;
    let before = meter.steps();
    pm.perform(&caller("bob"), tsugi_pm::action::list::GetReadyTasks::default()).await.unwrap();
    costs[1] = meter.steps() - before;
    let before = meter.steps();
    let taken = pm.perform(&caller("ann"), ClaimTask::default()).await.unwrap();
    costs[2] = meter.steps() - before;
    pm.perform(&caller("ann"), finish(&taken.task.unwrap().id, TaskStatus::Done)).await.unwrap();
    costs
}

/// Adds tasks behind tsugi's back, a third of them waiting, with an event each: only their number matters here.
fn grow(path: &Path, project: &ProjectId, from: usize, to: usize) {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
    let sql = format!(
        "BEGIN IMMEDIATE;
         CREATE TEMP TABLE n AS WITH RECURSIVE n(i) AS (SELECT {from} UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {to}) SELECT i FROM n;
         INSERT INTO task (id, project_id, number, reference, title, title_key, description, acceptance, status, priority, labels,
           required_capabilities, fence, open_blockers, unblocks, external, version, created_at, updated_at)
         SELECT 'tsk_bulk' || i, '{project}', 1000000 + i, 'WEB-' || (1000000 + i), 'bulk ' || i, 'bulk' || i, '', '[]', 'todo', 'medium',
           '[]', '[]', 0, i % 3 = 0, 0, '[]', 1, 1700000000000 + i, 1700000000000 + i FROM n;
         INSERT INTO event (id, at, project_id, entity_type, entity_id, type, changes, version_after, prev_hash, hash)
         SELECT 'evt_bulk' || i, 1700000000000, '{project}', 'task', 'tsk_bulk' || i, 'task.created', '[]', 1, '', '' FROM n;
         DROP TABLE n;
         COMMIT;"
    );
    connection.execute_batch(&sql).unwrap();
}

/// A newer program takes the last step of the schema while an older one is at work.
async fn is_outdated_by_a_newer_program(options: StoreOptions) {
    let old = Pm::open(StoreOptions { known_migrations: KNOWN - 1, ..options.clone() }).await.unwrap();
    let project = found(&old).await;
    create(&old, &project, "before").await.unwrap();
    let new = Pm::open(options).await.unwrap();
    let before = new.last_seq().await.unwrap();
    let refused = old.perform(&caller("manager"), CreateTask::titled(&project, "after")).await.unwrap_err();
    assert_eq!((refused.code, refused.retryable), (Code::Outdated, false), "{refused:?}");
    assert!(refused.message.contains("newer tsugi") && refused.hint.contains("start this server again"), "{refused:?}");
    assert_eq!(old.last_seq().await.unwrap_err().code, Code::Outdated, "reading is over too");
    assert_eq!(old.store().until_outdated().await.code, Code::Outdated, "and the program learns that it must end");
    assert_eq!(new.last_seq().await.unwrap(), before, "nothing was written");
    create(&new, &project, "after").await.unwrap();
    is_sound(&new).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_program_stops_when_a_newer_one_has_migrated_its_file() {
    let folder = folder();
    is_outdated_by_a_newer_program(options(&folder.path().join("pm.db"))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_program_stops_when_a_newer_one_has_migrated_its_postgres() {
    let Some(address) = postgres_address().await else { return };
    is_outdated_by_a_newer_program(StoreOptions::new(StoreLocation::Postgres(address))).await;
}
