//! The four prompts: where to begin, how to start a task, how to hand it over, how to end. Looking changes nothing.

use std::fmt::Write as _;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use tsugi_protocol::serve::{HandlerContext, HandlerError, PromptBuilder, PromptOutput, ServerBuilder};

use super::Lang;
use super::service::{PmService, refused};
use super::text::{list, task_page};
use crate::action::agent::{AgentProfile, GetMyProfile};
use crate::action::get_task::{GetTask, Section};
use crate::action::handoff::GetPendingHandoffs;
use crate::action::list::{GetMyTasks, GetReadyTasks, Mine};
use crate::action::search::GetHistory;
use crate::action::view::TaskRow;
use crate::domain::fault::PmFault;
use crate::domain::handoff::GitState;
use crate::domain::id::{ProjectRef, SessionId, TaskRef};
use crate::domain::limit;

/// The longest prompt.
const PROMPT_BYTES: usize = 6 * limit::KIB;

#[derive(Deserialize, JsonSchema)]
struct ProjectArguments {
    /// Only this project: prj_… or its key
    project_id: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct TaskArguments {
    /// タスクID / the task: tsk_… or KEY-n
    task_id: String,
}

#[derive(Deserialize, JsonSchema)]
struct SessionArguments {
    /// Only this session (ses_…)
    session_id: Option<String>,
}

/// Binds a prompt: its words, its arguments' type, and the function that writes it.
macro_rules! prompt {
    ($service:expr, $name:literal, $english:literal, $japanese:literal, $of:ty, $write:path) => {{
        let service = $service.clone();
        PromptBuilder::new($name, service.lang().pick($english, $japanese)).handler(
            move |of: $of, context: HandlerContext| {
                let service = service.clone();
                async move { rendered($write(&service, &context, of).await) }
            },
        )
    }};
}

/// Adds the prompts.
#[rustfmt::skip]
pub(super) fn add(service: &Arc<PmService>, builder: ServerBuilder) -> ServerBuilder {
    builder
        .prompt(prompt!(service, "session_start", "Where to begin.", "セッション開始時のガイダンス", ProjectArguments, session_start))
        .prompt(prompt!(service, "task_start", "How to start a task.", "タスク開始時のガイダンス", TaskArguments, task_start))
        .prompt(prompt!(service, "handoff_template", "A handoff to fill in.", "ハンドオフ作成テンプレート", TaskArguments, handoff_template))
        .prompt(prompt!(service, "session_end", "How to end well.", "セッション終了時のサマリ作成ガイド", SessionArguments, session_end))
}

/// A prompt: what there is to know, and what to do with it.
struct PromptPage {
    body: String,
    call: String,
}

/// What is too long is cut where it tells, never where it says what to do.
fn rendered(page: Result<PromptPage, PmFault>) -> Result<PromptOutput, HandlerError> {
    let PromptPage { body, call } = page.map_err(|fault| refused(&fault))?;
    // The instruction at the end must survive the cut.
    let (body, _) = limit::clip(&body, PROMPT_BYTES.saturating_sub(call.len()));
    Ok(PromptOutput::user(body + &call))
}

fn row(task: &TaskRow) -> String {
    format!("[{}] {} {} ({})", task.status, task.reference, task.title, task.id)
}

/// Interrupted claims first, then handoffs, reviews, my tasks, and what is ready.
async fn session_start(
    service: &PmService,
    context: &HandlerContext,
    of: ProjectArguments,
) -> Result<PromptPage, PmFault> {
    let lang = service.lang();
    let project_id = of.project_id.as_deref().map(ProjectRef::parse).transpose()?;
    let profile = service.ask(context, GetMyProfile {}).await?;
    let mine = |include: Vec<Mine>| GetMyTasks {
        status: Some("open".to_owned()),
        project_id: project_id.clone(),
        include,
        limit: Some(20),
        cursor: None,
    };
    // Each list is its own read: a prompt may be a moment out of date.
    let held = service.ask(context, mine(vec![Mine::Claimed])).await?.tasks;
    let waiting = GetPendingHandoffs { project_id: project_id.clone(), ..GetPendingHandoffs::default() };
    let handoffs = service.ask(context, waiting).await?.handoffs;
    let reviews = service.ask(context, mine(vec![Mine::Reviewing])).await?.tasks;
    let assigned = service.ask(context, mine(vec![Mine::Assigned])).await?.tasks;
    let ready = GetReadyTasks { project_id: project_id.clone(), limit: Some(5), ..GetReadyTasks::default() };
    let ready = service.ask(context, ready).await?.tasks;
    let mut page = about(&profile, lang);
    let count = |heading: &str, count: usize| format!("{heading} ({count}{})", lang.pick("", "件"));
    list(&mut page, &count(lang.pick("Interrupted work", "中断中の作業"), held.len()), held.iter().map(row));
    let offers =
        handoffs.iter().map(|one| format!("{} ({}): {}", one.id, one.task_id, limit::clip(&one.summary, 300).0));
    list(&mut page, &count(lang.pick("Handoffs for you", "未確認のハンドオフ"), handoffs.len()), offers);
    list(&mut page, &count(lang.pick("Reviews you can give", "レビュー待ち"), reviews.len()), reviews.iter().map(row));
    // This heading stays without entries: that nothing is assigned is what an agent asks first.
    let _ = writeln!(page, "\n## {}\n", count(lang.pick("Your tasks", "担当タスク"), assigned.len()));
    assigned.iter().for_each(|task| page.push_str(&format!("- {}\n", row(task))));
    list(&mut page, &count(lang.pick("Ready to start", "着手可能なタスク"), ready.len()), ready.iter().map(row));
    let call = lang.pick(
        "\nGo on with interrupted work first, then handoffs, then claim_task.\n",
        "\n中断中の作業、ハンドオフの順に確認し、その後 claim_task で着手してください。\n",
    );
    Ok(PromptPage { body: page, call: call.to_owned() })
}

fn about(profile: &AgentProfile, lang: Lang) -> String {
    let agent = &profile.agent;
    let mut page = format!("# {}\n\n", lang.pick("Session start", "セッション開始"));
    let _ = writeln!(page, "## {}\n", lang.pick("About you", "あなたの情報"));
    let _ = writeln!(page, "- {}: {} ({})", lang.pick("Name", "名前"), agent.name, agent.id);
    let _ = writeln!(page, "- {}: {}", lang.pick("Role", "役割"), agent.role_title);
    let _ = writeln!(page, "- {}: {}", lang.pick("Skills", "専門"), agent.capabilities.join(", "));
    if !agent.instructions.is_empty() {
        let _ = writeln!(page, "\n{}", limit::clip(&agent.instructions, limit::KIB).0);
    }
    page
}

async fn task_start(service: &PmService, context: &HandlerContext, of: TaskArguments) -> Result<PromptPage, PmFault> {
    let lang = service.lang();
    let detail = service.ask(context, GetTask::of(TaskRef::parse(&of.task_id)?)).await?;
    let mut page = task_page(&detail, lang);
    let waiting = detail.dependents.iter().flatten().map(row);
    list(&mut page, lang.pick("These wait for it", "このタスクを待つタスク"), waiting);
    let call = format!(
        "\n{}\n\n    claim_task {{\"task_id\": \"{}\"}}\n",
        lang.pick("Take it with:", "次の呼び出しで確保してください:"),
        detail.task.reference
    );
    Ok(PromptPage { body: page, call })
}

/// What the history knows is filled in, so that only judgement is left to add.
async fn handoff_template(
    service: &PmService,
    context: &HandlerContext,
    of: TaskArguments,
) -> Result<PromptPage, PmFault> {
    let lang = service.lang();
    let task_id = TaskRef::parse(&of.task_id)?;
    let include = vec![Section::Acceptance, Section::Contexts, Section::Claim];
    let detail = service.ask(context, GetTask { task_id, include, max_bytes: None }).await?;
    // Without a claim the whole history counts.
    let since = detail.claim.as_ref().map_or(0, |claim| claim.acquired_at.0);
    let entity_id = Some(detail.task.id.to_string());
    let history = GetHistory { entity_id, newest: true, limit: Some(200), ..GetHistory::default() };
    let events = service.ask(context, history).await?.events;
    let mut page =
        format!("# {} {} {}\n", lang.pick("Handoff of", "引き継ぎ:"), detail.task.reference, detail.task.title);
    // Newest first from the database, oldest first for the reader.
    let moves = events.iter().rev().filter(|event| event.at.0 >= since);
    let moves = moves.map(|event| format!("{} {}", event.kind, event.reason.as_deref().unwrap_or_default()));
    list(&mut page, lang.pick("Last checkpoint", "最後のチェックポイント"), detail.checkpoint.iter().cloned());
    list(&mut page, lang.pick("Work tree", "作業ツリー"), detail.git.iter().flat_map(git_lines));
    list(&mut page, lang.pick("Since the claim", "確保してからの動き"), moves);
    let learnt = detail.contexts.iter().flatten().filter(|one| one.created_at.0 >= since);
    let learnt = learnt.map(|one| format!("{}: {}", one.kind, limit::clip(&one.content, 300).0));
    list(&mut page, lang.pick("Recorded", "記録済みのコンテキスト"), learnt);
    let open = detail.task.acceptance.iter().filter(|one| !one.done).map(|one| one.text.clone());
    list(&mut page, lang.pick("Still open", "未達の受け入れ条件"), open);
    let call = format!(
        "\n{}\n\n    create_handoff {{\"task_id\": \"{}\", \"summary\": \"…\", \"next_steps\": [\"…\"], \"warnings\": [\"…\"]}}\n",
        lang.pick("Add your judgement and call:", "判断を書き加えて次を呼び出してください:"),
        detail.task.reference
    );
    Ok(PromptPage { body: page, call })
}

/// The branch and commit in a line, then the files.
fn git_lines(git: &GitState) -> Vec<String> {
    let place = [git.branch.as_deref(), git.commit.as_deref(), git.dirty.filter(|dirty| *dirty).map(|_| "dirty")];
    let place = place.into_iter().flatten().collect::<Vec<_>>().join(" ");
    Some(place).filter(|place| !place.is_empty()).into_iter().chain(git.files.iter().cloned()).collect()
}

async fn session_end(
    service: &PmService,
    context: &HandlerContext,
    of: SessionArguments,
) -> Result<PromptPage, PmFault> {
    let lang = service.lang();
    let session_id = of.session_id.as_deref().map(SessionId::parse).transpose()?;
    let claims = service.ask(context, GetMyProfile {}).await?.claims;
    // An agent may have several sessions; only one of them ends.
    let claims = claims.into_iter().filter(|claim| session_id.as_ref().is_none_or(|id| claim.session_id == *id));
    let mut rows = Vec::new();
    for claim in claims {
        let wish = GetTask { task_id: claim.task_id.into(), include: vec![Section::Acceptance], max_bytes: None };
        let task = service.ask(context, wish).await?.task;
        rows.push(format!("{} {} ({})", task.reference, task.title, task.id));
    }
    let mut page = format!("# {}\n", lang.pick("Session end", "セッション終了"));
    list(&mut page, lang.pick("Tasks you still hold", "保持中のタスク"), rows.into_iter());
    let call = lang.pick(
        "\nFor each of them choose one: done, review, create_handoff or release_task. Then call end_session with a \
         summary: what was done, what was decided, what is open.\n",
        "\nそれぞれについて、完了 (done)・レビュー (review)・引き継ぎ (create_handoff)・解放 (release_task) のいずれかを選んでください。\
         その後、行ったこと・決めたこと・残っていることをまとめて end_session を呼び出してください。\n",
    );
    Ok(PromptPage { body: page, call: call.to_owned() })
}
