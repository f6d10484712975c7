//! Answers one question of a server: by the person, from the command line, or by declining.

use std::path::PathBuf;

use serde_json::{Value, json};
use tsugi_client::Server;
use tsugi_protocol::answer::{Fault, FaultCode};
use tsugi_protocol::json::{JsonObject, RawJson};
use tsugi_protocol::mcp::Method;
use tsugi_protocol::mcp::input::Question;
use url::Url;

use super::InteractiveCall;
use crate::failure::CommandFailure;
use crate::output::printable;
use crate::terminal::{self, UserReaction, form::QuestionForm};

impl InteractiveCall<'_> {
    pub(super) async fn answer_one(&self, server: &Server, question: &Question) -> Result<RawJson, CommandFailure> {
        match question.method {
            Method::Elicit => self.elicit(server, &question.params_object()).await,
            Method::RootsList if !self.roots.is_empty() => Ok(roots(&self.roots)),
            _ => Err(cannot_answer(server, &question.method).into()),
        }
    }

    async fn elicit(&self, server: &Server, params: &JsonObject) -> Result<RawJson, CommandFailure> {
        let message = printable(&params.get_lossy("message").unwrap_or_default());
        if !self.is_interactive {
            return Ok(self.decline(server, &message));
        }
        let name = server.name().to_owned();
        let reaction = match params.get_str("mode").as_deref() {
            Some("url") => {
                let url = printable(&params.get_str("url").unwrap_or_default());
                terminal::blocking(move || terminal::visit(&name, &message, &url)).await?
            }
            _ => {
                let schema: Value =
                    params.get("requestedSchema").and_then(|schema| schema.to_lossy().ok()).unwrap_or_default();
                terminal::blocking(move || terminal::fill_in(&name, &message, &QuestionForm::of(&schema))).await?
            }
        };
        Ok(reaction_answer(reaction))
    }

    fn decline(&self, server: &Server, message: &str) -> RawJson {
        if !self.app.common.quiet {
            let text = format!("{} asks: {message}\ndeclined: prompts are off", server.name());
            self.app.output.message(|paint| paint.faint(text));
        }
        reaction_answer(UserReaction::Decline)
    }
}

/// The directories as `roots/list` gives them.
pub(crate) fn roots(paths: &[PathBuf]) -> RawJson {
    let root = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let uri = Url::from_file_path(path).map(String::from).unwrap_or_default();
        json!({"uri": uri, "name": name.unwrap_or_else(|| "/".to_owned())})
    };
    RawJson::from(json!({"roots": paths.iter().map(root).collect::<Vec<_>>()}))
}

fn reaction_answer(reaction: UserReaction) -> RawJson {
    match reaction {
        UserReaction::Accept(Some(content)) => RawJson::from(json!({"action": "accept", "content": content})),
        UserReaction::Accept(None) => RawJson::literal(r#"{"action":"accept"}"#),
        UserReaction::Decline => RawJson::literal(r#"{"action":"decline"}"#),
        UserReaction::Cancel => RawJson::literal(r#"{"action":"cancel"}"#),
    }
}

fn cannot_answer(server: &Server, method: &Method) -> Fault {
    let (what, hint) = match method {
        Method::RootsList => ("for the working directories", "name them with --root"),
        Method::CreateMessage => ("for a model's answer", "the command has no model; call the tool from an agent"),
        _ => ("a question that the command cannot answer", "use a client that can"),
    };
    let message = format!("the server asks {what} ({method})");
    Fault::new(FaultCode::InputRequired, message).on_server(server.name()).with_hint(hint)
}
