//! The table of tools: action, words for the model in both languages, arguments; `!` marks what must be given.

use super::{ToolSpec, keyed_tool, tool, waiting_tool};
use crate::action::admin::{
    ForceEndSession, ForceRelease, IssueToken, ListTokens, RegisterAgent, RevokeToken, SetMembership, UpdateAgent,
};
use crate::action::agent::{GetMyProfile, ListAgents, ListSessions};
use crate::action::claim::{ClaimTask, ReleaseTask};
use crate::action::context::AddContext;
use crate::action::create::{CreateTask, CreateTasks};
use crate::action::edit::{UpdateDependencies, UpdateTask};
use crate::action::get_task::GetTask;
use crate::action::handoff::{AcceptHandoff, CreateHandoff, GetPendingHandoffs, RejectHandoff};
use crate::action::list::{GetMyTasks, GetReadyTasks, ListTasks};
use crate::action::project::{CreateProject, ListProjects, UpdateProject};
use crate::action::search::{GetHistory, SearchRecords};
use crate::action::session::{EndSession, SessionHeartbeat, StartSession};
use crate::action::status::{ReviewTask, UpdateTaskStatus};
use crate::mcp::Profile::{All, Core, Seed, Standard};

/// What agents work with.
pub(super) const STANDARD: &[ToolSpec] = &[
    tool::<GetMyProfile>(Seed, "Who you are: memberships, sessions, claims.", "自分のエージェント情報を取得", ""),
    tool::<ListAgents>(
        Seed,
        "A project's agents, who is online, what each holds.",
        "プロジェクトのエージェント一覧",
        r#""project_id":@text,"status":{"enum":["active","inactive","archived"]},"capability":@text,"limit":@limit,"cursor":@text"#,
    ),
    tool::<StartSession>(
        Core,
        "Begin work: session_id, handoffs, ready tasks. `resume` takes over an earlier session's claims.",
        "セッションを開始。resume で以前のセッションを引き継ぐ",
        r#""project_id":@text,"client_note":@text,"resume":@text,"idempotency_key":@key"#,
    ),
    tool::<EndSession>(
        Seed,
        "End the session; held tasks are handed over, kept or given back.",
        "セッションを終了",
        r#""summary!":@text,"session_id":@text,"handoffs":{"type":"array","items":{"type":"object","properties":{"task_id":@text,"to_agent_id":@text,"summary":@text,"next_steps":@texts},"required":["task_id","summary","next_steps"],"additionalProperties":false}},"keep_claims":@flag,"idempotency_key":@key"#,
    ),
    tool::<SessionHeartbeat>(
        Standard,
        "Keep your claims alive during long work and save a checkpoint, which becomes the handoff if you vanish.",
        "クレームを延長し、チェックポイントを保存",
        r#""session_id":@text,"task_ids":@tasks,"checkpoint":{"type":"string","maxLength":4096},"git":{"type":"object","properties":{"branch":@text,"commit":@text,"dirty":@flag,"files":@texts},"additionalProperties":false},"idempotency_key":@key"#,
    ),
    tool::<ListSessions>(
        Standard,
        "Who is at work: live sessions and what they hold.",
        "稼働中のセッション一覧",
        r#""limit":@limit,"cursor":@text"#,
    ),
    tool::<GetMyTasks>(
        Seed,
        "Tasks you hold or are assigned.",
        "自分に割り当てられたタスク",
        r#""status":{"type":"string","description":"a status, or open"},"project_id":@text,"include":{"type":"array","items":{"enum":["claimed","assigned","created","reviewing"]}},"limit":@limit,"cursor":@text"#,
    ),
    tool::<GetReadyTasks>(
        Core,
        "What can be started now, best first, and what blocks the rest.",
        "今すぐ着手できるタスク（優先順）",
        r#""project_id":@text,"labels":@texts,"capability_match":@flag,"limit":@limit"#,
    ),
    tool::<ListTasks>(
        Standard,
        "Search the task list by status, assignee, label, parent, staleness or text.",
        "タスク一覧（絞り込み可）",
        r#""project_id":@text,"status":{"type":"array","items":{"enum":["backlog","todo","in_progress","review","blocked","done","cancelled"]}},"assignee_id":@text,"label":@text,"parent_id":@task,"stale_after_s":@number,"text":@text,"sort":{"enum":["updated","created","priority","due"]},"limit":@limit,"cursor":@text"#,
    ),
    tool::<GetTask>(
        Core,
        "One task with all that surrounds it.",
        "タスクの詳細を取得",
        r#""task_id!":@task,"include":{"type":"array","items":{"enum":["description","acceptance","contexts","handoff","dependencies","claim","history"]}},"max_bytes":@number"#,
    ),
    tool::<CreateTask>(
        Core,
        "Create a task; depends_on are to be done first. due_at in ms UTC.",
        "タスクを作成",
        r#""project_id!":@text,"title!":@text,"description":@text,"priority":{"enum":["critical","high","medium","low"]},"status":{"enum":["backlog","todo"]},"assignee_id":@text,"parent_id":@text,"labels":@texts,"acceptance":@texts,"depends_on":@tasks,"required_capabilities":@texts,"due_at":@number,"discovered_from":@text,"similar_ok":@flag,"idempotency_key":@key"#,
    ),
    tool::<CreateTasks>(
        Standard,
        "Create up to 100 tasks, all or none. Each has a `ref` that others may name in depends_on.",
        "複数のタスクを一括作成（全部か無しか）",
        r#""project_id!":@text,"tasks!":{"type":"array","minItems":1,"maxItems":100,"items":{"type":"object","description":"ref plus the fields of create_task","properties":{"ref":@text,"title":@text,"description":@text,"priority":{"enum":["critical","high","medium","low"]},"status":{"enum":["backlog","todo"]},"assignee_id":@text,"parent_id":@text,"labels":@texts,"acceptance":@texts,"depends_on":@texts,"required_capabilities":@texts,"due_at":@number,"discovered_from":@text,"similar_ok":@flag},"required":["ref","title"],"additionalProperties":false}},"idempotency_key":@key"#,
    ),
    tool::<UpdateTask>(
        Standard,
        "Change a task's fields; those not named stay. A new description needs expected_version unless you wrote the last one.",
        "タスクの内容を変更",
        r#""task_id!":@task,"title":@text,"description":@text,"priority":{"enum":["critical","high","medium","low"]},"labels":{"type":"object","properties":{"add":@texts,"remove":@texts,"set":@texts},"additionalProperties":false},"acceptance":{"type":"object","properties":{"check":{"type":"array","items":@number},"uncheck":{"type":"array","items":@number},"add":@texts},"additionalProperties":false},"assignee_id":@text,"due_at":@number,"parent_id":@text,"expected_version":@number,"idempotency_key":@key"#,
    ),
    tool::<UpdateTaskStatus>(
        Seed,
        "Move a task. in_progress claims it; blocked, cancelled need a reason; review, done a result.",
        "タスクのステータスを更新",
        r#""task_id!":@task,"status!":{"enum":["backlog","todo","in_progress","review","blocked","done","cancelled"]},"reason":@text,"result":{"type":"object","properties":{"summary":@text,"evidence":{"type":"array","items":{"type":"object","properties":{"kind":@text,"uri":@text,"text":@text},"additionalProperties":false}}},"required":["summary"],"additionalProperties":false},"expected_version":@number,"session_id":@text,"idempotency_key":@key"#,
    ),
    tool::<ClaimTask>(
        Core,
        "Take a task (id or KEY-n), or the best ready one. The claim ends if you stay idle.",
        "タスクを確保（task_id 省略時は最優先の着手可能タスク）",
        r#""task_id":@task,"project_id":@text,"labels":@texts,"ttl_seconds":@number,"session_id":@text,"idempotency_key":@key"#,
    ),
    tool::<ReleaseTask>(
        Core,
        "Give a task back, with a reason and a note for the next.",
        "確保したタスクを手放す",
        r#""task_id!":@task,"reason!":@text,"note":@text,"session_id":@text,"idempotency_key":@key"#,
    ),
    tool::<UpdateDependencies>(
        Standard,
        "Change what a task waits for.",
        "タスクの依存関係を変更",
        r#""task_id!":@task,"add":@tasks,"remove":@tasks,"idempotency_key":@key"#,
    ),
    tool::<AddContext>(
        Seed,
        "Record what was learnt or decided.",
        "タスクにコンテキスト情報を追加",
        r#""task_id":@task,"project_id":@text,"content!":@text,"type!":{"enum":["note","decision","assumption","blocker","reference","artifact"]},"uri":@text,"supersedes":@text,"session_id":@text,"idempotency_key":@key"#,
    ),
    tool::<CreateHandoff>(
        Seed,
        "Hand over a task, without to_agent_id to whoever comes.",
        "他エージェントへの引き継ぎを作成",
        r#""task_id!":@task,"to_agent_id":@text,"summary!":@text,"next_steps!":@texts,"warnings":@texts,"done":@texts,"uncertain":@texts,"git":{"type":"object","properties":{"branch":@text,"commit":@text,"dirty":@flag,"files":@texts},"additionalProperties":false},"session_id":@text,"idempotency_key":@key"#,
    ),
    tool::<GetPendingHandoffs>(
        Seed,
        "Handoffs that wait for you, oldest first.",
        "自分宛の未確認ハンドオフ一覧",
        r#""project_id":@text,"include_open":@flag,"sent":@flag,"limit":@limit,"cursor":@text"#,
    ),
    tool::<AcceptHandoff>(
        Core,
        "Take a handoff and with it the task. Only one agent can.",
        "ハンドオフを受け取り、タスクを確保",
        r#""handoff_id!":@text,"note":@text,"session_id":@text,"idempotency_key":@key"#,
    ),
    tool::<RejectHandoff>(
        Standard,
        "Say no to a handoff; the task is then free for everybody.",
        "ハンドオフを断る",
        r#""handoff_id!":@text,"reason!":@text,"idempotency_key":@key"#,
    ),
    tool::<ReviewTask>(
        Standard,
        "Judge finished work of somebody else; changes need notes.",
        "他者の成果をレビュー",
        r#""task_id!":@task,"verdict!":{"enum":["approve","changes"]},"notes":@text,"idempotency_key":@key"#,
    ),
    tool::<SearchRecords>(
        Core,
        "Find tasks, contexts and handoffs by words.",
        "タスク・コンテキスト・ハンドオフを検索",
        r#""query!":@text,"project_id":@text,"kinds":{"type":"array","items":{"enum":["task","context","handoff"]}},"limit":@limit"#,
    ),
    tool::<GetHistory>(
        Standard,
        "What happened to one thing or in a project, oldest first unless newest.",
        "変更履歴を取得",
        r#""entity_id":@text,"project_id":@text,"since_seq":@number,"newest":@flag,"before_seq":@number,"types":@texts,"limit":@limit"#,
    ),
    waiting_tool(
        Standard,
        "Notices for you: handoffs, reviews, lost claims. Can wait for the first.",
        "自分宛の通知を取得（待機可）",
        r#""since":@number,"wait_seconds":{"type":"integer","minimum":0,"maximum":50}"#,
    ),
    tool::<ListProjects>(
        Core,
        "Your projects and roles.",
        "参加しているプロジェクト一覧",
        r#""status":{"enum":["active","paused","archived"]},"cursor":@text"#,
    ),
    tool::<CreateProject>(
        Standard,
        "Create a project; key is the prefix of its task numbers.",
        "プロジェクトを作成",
        r#""key!":{"type":"string","pattern":"^[A-Z][A-Z0-9]{1,9}$"},"name!":@text,"description":@text,"policy":@policy,"idempotency_key":@key"#,
    ),
];

/// What keeps house; only where somebody asked for it.
pub(super) const ADMIN: &[ToolSpec] = &[
    keyed_tool::<RegisterAgent>(
        All,
        "Register an agent.",
        "エージェントを登録",
        r#""agent_id":@text,"name":@text,"type!":{"enum":["human","ai"]},"role_title":@text,"capabilities":@texts,"instructions":@text,"idempotency_key":@key"#,
    ),
    keyed_tool::<UpdateAgent>(
        All,
        "Change an agent; what is not named stays.",
        "エージェント情報を変更",
        r#""agent_id!":@text,"name":@text,"role_title":@text,"capabilities":@texts,"instructions":@text,"status":{"enum":["active","inactive","archived"]},"idempotency_key":@key"#,
    ),
    keyed_tool::<SetMembership>(
        All,
        "Give an agent a role in a project; without role it leaves.",
        "プロジェクトでの役割を設定",
        r#""project_id!":@text,"agent_id!":@text,"role":{"enum":["owner","manager","worker","viewer"]},"idempotency_key":@key"#,
    ),
    keyed_tool::<UpdateProject>(
        All,
        "Change a project's name, description, policy or state.",
        "プロジェクトを変更",
        r#""project_id!":@text,"name":@text,"description":@text,"policy":@policy,"status":{"enum":["active","paused","archived"]},"reason":@text,"idempotency_key":@key"#,
    ),
    keyed_tool::<ForceRelease>(
        All,
        "Take a claim away from whoever holds it.",
        "クレームを強制解除",
        r#""task_id!":@task,"reason!":@text,"idempotency_key":@key"#,
    ),
    keyed_tool::<ForceEndSession>(
        All,
        "End somebody's session.",
        "セッションを強制終了",
        r#""session_id!":@text,"reason!":@text,"idempotency_key":@key"#,
    ),
    // Without a key: the answer would be remembered, and with it the secret.
    tool::<IssueToken>(
        All,
        "Make an access token; its secret is shown once.",
        "アクセストークンを発行",
        r#""agent_id!":@text,"expires_in_s":@number"#,
    ),
    tool::<ListTokens>(All, "List access tokens.", "アクセストークン一覧", r#""agent_id":@text"#),
    keyed_tool::<RevokeToken>(
        All,
        "Withdraw an access token.",
        "アクセストークンを無効化",
        r#""token_id!":@text,"idempotency_key":@key"#,
    ),
];
