//! The table of tools: the smallest profile that has each, its action, and its description in both languages.

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
    tool::<GetMyProfile>(Seed, "You: memberships, sessions, claims.", "自分のエージェント情報を取得"),
    tool::<ListAgents>(Seed, "Agents of a project and what each holds.", "プロジェクトのエージェント一覧"),
    tool::<StartSession>(Core, "Begin work: session_id, handoffs, ready tasks.", "セッションを開始"),
    tool::<EndSession>(Seed, "End the session; tasks not handed over or kept are released.", "セッションを終了"),
    tool::<SessionHeartbeat>(
        Standard,
        "Renew your claims and save a checkpoint, your handoff if you vanish.",
        "クレームを延長し、経過を保存",
    ),
    tool::<ListSessions>(Standard, "Live sessions and what they hold.", "稼働中のセッション一覧"),
    tool::<GetMyTasks>(Seed, "Tasks you hold or are assigned.", "自分に割り当てられたタスク"),
    tool::<GetReadyTasks>(Core, "Tasks that can start now, best first, and blockers.", "着手できるタスク（優先順）"),
    tool::<ListTasks>(Standard, "Filter the task list.", "タスク一覧（絞り込み可）"),
    tool::<GetTask>(Core, "One task with its surroundings.", "タスクの詳細を取得"),
    tool::<CreateTask>(Core, "Create a task.", "タスクを作成"),
    tool::<CreateTasks>(
        Standard,
        "Create up to 100 tasks, all or none. depends_on may name a `ref`.",
        "タスクを一括作成（全部か無しか）",
    ),
    tool::<UpdateTask>(
        Standard,
        "Change fields. A new description needs expected_version unless the last was yours.",
        "タスクの内容を変更",
    ),
    tool::<UpdateTaskStatus>(
        Seed,
        "Move a task. in_progress claims it; blocked, cancelled need a reason; review, done a result.",
        "タスクのステータスを更新",
    ),
    tool::<ClaimTask>(Core, "Take a task, or the best ready one. An idle claim ends.", "タスクを確保"),
    tool::<ReleaseTask>(Core, "Give a task back.", "確保したタスクを手放す"),
    tool::<UpdateDependencies>(Standard, "Change what a task waits for.", "依存関係を変更"),
    tool::<AddContext>(Seed, "Record a finding or decision.", "タスクにコンテキスト情報を追加"),
    tool::<CreateHandoff>(Seed, "Hand a task over.", "他エージェントへの引き継ぎを作成"),
    tool::<GetPendingHandoffs>(Seed, "Handoffs that wait for you.", "自分宛の未確認ハンドオフ一覧"),
    tool::<AcceptHandoff>(Core, "Take a handoff and its task.", "ハンドオフとタスクを受け取る"),
    tool::<RejectHandoff>(Standard, "Refuse a handoff; anyone may then take the task.", "ハンドオフを断る"),
    tool::<ReviewTask>(Standard, "Judge another agent's work; changes need notes.", "他者の成果をレビュー"),
    tool::<SearchRecords>(Core, "Find tasks, contexts and handoffs.", "タスク・記録・ハンドオフを検索"),
    tool::<GetHistory>(Standard, "What happened, oldest first.", "変更履歴を取得"),
    waiting_tool(Standard, "Your notices: handoffs, reviews, lost claims. Can wait for one.", "自分宛の通知（待機可）"),
    tool::<ListProjects>(Core, "Your projects and roles.", "参加しているプロジェクト一覧"),
    tool::<CreateProject>(Standard, "Create a project.", "プロジェクトを作成"),
];

/// Administration, in the full list only.
pub(super) const ADMIN: &[ToolSpec] = &[
    keyed_tool::<RegisterAgent>(All, "Register an agent.", "エージェントを登録"),
    keyed_tool::<UpdateAgent>(All, "Change the fields you name of an agent.", "エージェント情報を変更"),
    keyed_tool::<SetMembership>(All, "Give an agent a role in a project.", "プロジェクトでの役割を設定"),
    keyed_tool::<UpdateProject>(All, "Change the fields you name of a project.", "プロジェクトを変更"),
    keyed_tool::<ForceRelease>(All, "Take a claim away from its holder.", "クレームを強制解除"),
    keyed_tool::<ForceEndSession>(All, "End an agent's session.", "セッションを強制終了"),
    // Without a key: the answer would be remembered, and with it the secret.
    tool::<IssueToken>(All, "Make an access token; its secret is shown once.", "アクセストークンを発行"),
    tool::<ListTokens>(All, "List access tokens.", "アクセストークン一覧"),
    keyed_tool::<RevokeToken>(All, "Revoke an access token.", "アクセストークンを無効化"),
];
