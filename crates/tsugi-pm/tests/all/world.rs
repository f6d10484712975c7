//! A small scripted world: a fresh store, a clock that can be moved, a project and some agents.

use tempfile::TempDir;
use tsugi_pm::action::admin::{RegisterAgent, SetMembership};
use tsugi_pm::action::caller::ActionCaller;
use tsugi_pm::action::claim::{ClaimTask, ClaimedTask};
use tsugi_pm::action::create::{CreateTask, NewTask};
use tsugi_pm::action::project::CreateProject;
use tsugi_pm::action::session::StartSession;
use tsugi_pm::action::status::{MovedTask, UpdateTaskStatus};
use tsugi_pm::action::view::TaskView;
use tsugi_pm::action::{Action, Pm};
use tsugi_pm::domain::fault::{Code, PmFault};
use tsugi_pm::domain::id::{AgentId, ProjectId, SessionId, TaskId};
use tsugi_pm::domain::member::Role;
use tsugi_pm::domain::policy::{ProjectPolicy, WorkerCreate};
use tsugi_pm::domain::task::{TaskStatus, WorkResult};
use tsugi_pm::domain::time::Moment;
use tsugi_pm::store::clock::ManualClock;
use tsugi_pm::store::{StoreLocation, StoreOptions};

/// The time at which every world begins.
pub const BEGIN: Moment = Moment(1_800_000_000_000);

pub struct World {
    pub pm: Pm,
    pub clock: ManualClock,
    pub project: ProjectId,
    pub location: StoreLocation,
    /// Removed with the world.
    _folder: Option<TempDir>,
}

/// A folder that vanishes after the test, in memory where there is such a place: a process that is killed loses no
/// page of a file either way, and the tests that are about disks write down their syncs themselves.
pub fn folder() -> TempDir {
    let memory = std::path::Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

pub fn agent(name: &str) -> AgentId {
    AgentId::parse(&format!("agt_{name}")).unwrap()
}

pub fn caller(name: &str) -> ActionCaller {
    ActionCaller::agent(agent(name))
}

/// The address of a PostgreSQL for tests, each time with a schema of its own; or a line that says why not.
pub async fn postgres_address() -> Option<String> {
    let Ok(base) = std::env::var("TSUGI_TEST_POSTGRES") else {
        println!("skipped: TSUGI_TEST_POSTGRES is not set (scripts/postgres starts one)");
        return None;
    };
    let schema = format!("t_{:016x}", rand::random::<u64>());
    let (client, connection) = tokio_postgres::connect(&base, tokio_postgres::NoTls).await.unwrap();
    let driving = tokio::spawn(connection);
    client.batch_execute(&format!("CREATE SCHEMA {schema}")).await.unwrap();
    drop(client);
    driving.await.unwrap().unwrap();
    Some(format!("{base}?options=-csearch_path%3D{schema}"))
}

impl World {
    pub async fn sqlite() -> Self {
        let folder = folder();
        let location = StoreLocation::Sqlite(folder.path().join("pm.db"));
        Self::at(location, Some(folder)).await
    }

    /// A store with nothing in it; the project is only a name.
    pub async fn sqlite_empty() -> Self {
        let folder = folder();
        let location = StoreLocation::Sqlite(folder.path().join("pm.db"));
        let clock = ManualClock::at(BEGIN);
        let pm = Pm::open(StoreOptions::new(location.clone()).with_clock(clock.clone())).await.unwrap();
        Self { pm, clock, project: ProjectId::mint(0), location, _folder: Some(folder) }
    }

    pub async fn postgres() -> Option<Self> {
        Some(Self::at(StoreLocation::Postgres(postgres_address().await?), None).await)
    }

    async fn at(location: StoreLocation, folder: Option<TempDir>) -> Self {
        let clock = ManualClock::at(BEGIN);
        let pm = Pm::open(StoreOptions::new(location.clone()).with_clock(clock.clone())).await.unwrap();
        let project = found(&pm).await;
        Self { pm, clock, project, location, _folder: folder }
    }

    /// Does something that should succeed.
    pub async fn ok<A: Action>(&self, who: &str, action: A) -> A::Output {
        self.pm.perform(&caller(who), action).await.unwrap_or_else(|fault| panic!("{} by {who}: {fault:?}", A::NAME))
    }

    /// Does something that should be refused, with this code.
    pub async fn refused<A: Action>(&self, who: &str, action: A, code: Code) -> PmFault {
        match self.pm.perform(&caller(who), action).await {
            Ok(_) => panic!("{} by {who} should be refused with {code}", A::NAME),
            Err(fault) => {
                assert_eq!(fault.code, code, "{} by {who}: {fault:?}", A::NAME);
                fault
            }
        }
    }

    /// Does something as the person with the database in hand.
    pub async fn operator<A: Action>(&self, action: A) -> A::Output {
        self.pm.perform(&ActionCaller::operator(), action).await.unwrap()
    }

    /// A ready task.
    pub async fn task(&self, title: &str) -> TaskView {
        self.new_task(NewTask { title: title.to_owned(), ..NewTask::default() }).await
    }

    pub async fn new_task(&self, task: NewTask) -> TaskView {
        let create = CreateTask { project_id: self.project.clone().into(), task, idempotency_key: None };
        self.ok("manager", create).await.task
    }

    /// A task that waits for others.
    pub async fn waiting_task(&self, title: &str, on: &[&TaskView]) -> TaskView {
        let depends_on = on.iter().map(|one| one.id.to_string()).collect();
        self.new_task(NewTask { title: title.to_owned(), depends_on, ..NewTask::default() }).await
    }

    pub async fn session(&self, who: &str) -> SessionId {
        self.ok(who, StartSession { project_id: Some(self.project.clone().into()), ..StartSession::default() })
            .await
            .session_id
    }

    pub async fn claim(&self, who: &str, task: &TaskView) -> ClaimedTask {
        self.ok(who, claim(&task.id)).await
    }

    pub async fn finish(&self, who: &str, task: &TaskView) -> MovedTask {
        self.ok(who, finish(&task.id, TaskStatus::Done)).await
    }

    pub async fn policy(&self, policy: ProjectPolicy) {
        let change = tsugi_pm::action::project::UpdateProject {
            policy: Some(policy),
            ..tsugi_pm::action::project::UpdateProject::of(&self.project)
        };
        self.operator(change).await;
    }

    /// The whole store is sound: history, counts and invariants.
    pub async fn check(&self) {
        let found = self.pm.verify().await.unwrap();
        assert!(found.problems.is_empty(), "{:#?}", found.problems);
    }
}

pub fn claim(task: &TaskId) -> ClaimTask {
    ClaimTask { task_id: Some(task.clone().into()), ..ClaimTask::default() }
}

pub fn finish(task: &TaskId, status: TaskStatus) -> UpdateTaskStatus {
    let result = Some(WorkResult { summary: "it works".to_owned(), evidence: Vec::new() });
    UpdateTaskStatus { result, ..UpdateTaskStatus::new(task.clone(), status) }
}

/// A project without review, an owner, a manager, three workers and a viewer; all programs except the owner, who is
/// a viewer's kind of human: it belongs to nothing that would ask for reviews.
pub async fn found(pm: &Pm) -> ProjectId {
    let operator = ActionCaller::operator();
    let policy =
        ProjectPolicy { review_required: Some(false), worker_create: WorkerCreate::Allow, ..ProjectPolicy::default() };
    let project = CreateProject {
        key: "WEB".into(),
        name: "Web shop".into(),
        description: String::new(),
        policy,
        idempotency_key: None,
    };
    let project = pm.perform(&operator, project).await.unwrap().project.id;
    let people = [
        ("owner", Role::Owner),
        ("manager", Role::Manager),
        ("ann", Role::Worker),
        ("bob", Role::Worker),
        ("cho", Role::Worker),
        ("vic", Role::Viewer),
    ];
    for (name, role) in people {
        let kind = if role == Role::Owner { RegisterAgent::human(agent(name)) } else { RegisterAgent::ai(agent(name)) };
        pm.perform(&operator, kind).await.unwrap();
        let member = SetMembership {
            project_id: project.clone().into(),
            agent_id: agent(name),
            role: Some(role),
            allow_ai_owner: false,
        };
        pm.perform(&operator, member).await.unwrap();
    }
    project
}

/// Makes one test per store out of each named function that takes a [`World`].
#[macro_export]
macro_rules! both_stores {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name($crate::world::World::sqlite().await).await;
            })+
        }

        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                if let Some(world) = $crate::world::World::postgres().await {
                    super::$name(world).await;
                }
            })+
        }
    };
}

impl World {
    /// The database as it is written after `--db`.
    pub fn database(&self) -> String {
        match &self.location {
            StoreLocation::Sqlite(path) => path.to_str().unwrap().to_owned(),
            StoreLocation::Postgres(address) => address.clone(),
        }
    }

    /// Goes behind tsugi's back: runs SQL of its own; answers what the database says against it.
    pub async fn raw(&self, sql: &str) -> Result<(), String> {
        match &self.location {
            StoreLocation::Sqlite(path) => {
                let connection = rusqlite::Connection::open(path).unwrap();
                connection.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
                connection.execute_batch(sql).map_err(|error| error.to_string())
            }
            StoreLocation::Postgres(address) => {
                let (client, connection) = tokio_postgres::connect(address, tokio_postgres::NoTls).await.unwrap();
                let driving = tokio::spawn(connection);
                let done = client.batch_execute(sql).await;
                drop(client);
                driving.await.unwrap().unwrap();
                done.map_err(|error| {
                    error.as_db_error().map_or_else(|| error.to_string(), |one| one.message().to_owned())
                })
            }
        }
    }
}
