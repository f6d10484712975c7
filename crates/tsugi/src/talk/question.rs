//! One question of a server, answered: by the person, by what the command line says, or declined.

use std::path::PathBuf;

use serde_json::{Value, json};
use tsugi_client::Server;
use tsugi_protocol::answer::{Fault, FaultCode};
use tsugi_protocol::json::{Object, Raw};
use tsugi_protocol::mcp::Method;
use tsugi_protocol::mcp::input::Question;
use url::Url;

use super::Talk;
use crate::failure::{Failure, printable};
use crate::terminal::{self, Reaction, form::Form};

impl Talk<'_> {
    /// The answer as it is to be sent.
    pub(super) async fn answer_one(&self, server: &Server, question: &Question) -> Result<Raw, Failure> {
        match question.method {
            Method::Elicit => self.elicit(server, &question.params_object()).await,
            Method::RootsList if !self.roots.is_empty() => Ok(roots(&self.roots)),
            _ => Err(cannot_answer(server, &question.method).into()),
        }
    }

    async fn elicit(&self, server: &Server, params: &Object) -> Result<Raw, Failure> {
        let message = printable(&params.get_shown("message").unwrap_or_default());
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
                    params.get("requestedSchema").and_then(|schema| schema.to_shown().ok()).unwrap_or_default();
                terminal::blocking(move || terminal::fill_in(&name, &message, &Form::of(&schema))).await?
            }
        };
        Ok(reaction_answer(reaction))
    }

    fn decline(&self, server: &Server, message: &str) -> Raw {
        if !self.app.common.quiet {
            let text = format!("{} asks: {message}\ndeclined, because nobody is here to be asked", server.name());
            self.app.output.say(|paint| paint.faint(text));
        }
        reaction_answer(Reaction::Decline)
    }
}

/// The directories as `roots/list` gives them.
pub(crate) fn roots(paths: &[PathBuf]) -> Raw {
    let root = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let uri = Url::from_file_path(path).map(String::from).unwrap_or_default();
        json!({"uri": uri, "name": name.unwrap_or_else(|| "/".to_owned())})
    };
    Raw::from(json!({"roots": paths.iter().map(root).collect::<Vec<_>>()}))
}

fn reaction_answer(reaction: Reaction) -> Raw {
    match reaction {
        Reaction::Accept(Some(content)) => Raw::from(json!({"action": "accept", "content": content})),
        Reaction::Accept(None) => Raw::literal(r#"{"action":"accept"}"#),
        Reaction::Decline => Raw::literal(r#"{"action":"decline"}"#),
        Reaction::Cancel => Raw::literal(r#"{"action":"cancel"}"#),
    }
}

fn cannot_answer(server: &Server, method: &Method) -> Fault {
    let (what, hint) = match method {
        Method::RootsList => ("for the directories we work in", "tell them with --root"),
        Method::CreateMessage => ("for a model's answer", "the command has no model to lend; use an agent"),
        _ => ("something that the command cannot answer", "use a client that can"),
    };
    let message = format!("the server asks {what} ({method})");
    Fault::new(FaultCode::InputRequired, message).on_server(server.name()).with_hint(hint)
}
