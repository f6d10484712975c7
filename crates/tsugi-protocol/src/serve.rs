//! A small way to write a server in this process: tools, resources and prompts with typed arguments.
//!
//! ```
//! use tsugi_protocol::answer::{Answer, Call};
//! use tsugi_protocol::serve::{InProcessServer, StructuredOutput, ToolBuilder};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Add { a: i64, b: i64 }
//! #[derive(serde::Serialize, schemars::JsonSchema)]
//! struct Sum { sum: i64 }
//!
//! let server = InProcessServer::builder("demo", "1.0.0")
//!     .title("Demo")
//!     .tool(ToolBuilder::new("add", "Adds two numbers.").read_only().handler(|add: Add, _cx| async move {
//!         Ok(StructuredOutput(Sum { sum: add.a + add.b }))
//!     }))
//!     .build();
//! let reply = server.answer(Call::tool("add", Some(&serde_json::json!({"a": 1, "b": 2}).into())));
//! # drop(reply);
//! ```
//!
//! A server is an [`Answer`](crate::answer::Answer) in the modern form and nothing else: it has no
//! connection, no session and no clock. Handlers run inside the reply, so dropping the reply drops the
//! handler at its current `await`; a call without notes costs no channel and no task. A handler that
//! needs the user ends with [`NeedInput`] and is called again with the answers, see [`HandlerContext`].

mod arguments;
mod builder;
mod completion;
mod context;
mod error;
mod handler_reply;
mod input;
mod listing;
mod output;
mod prompt;
mod resource;
mod schema;
mod server;
mod subscription;
#[cfg(test)]
mod tests;
mod tool;

pub use builder::ServerBuilder;
pub use completion::{CompletionRequest, CompletionValues};
pub use context::HandlerContext;
pub use error::HandlerError;
pub use input::{ElicitationAnswer, NeedInput};
pub use output::{IntoToolOutput, StructuredOutput, TextOutput, ToolOutput, block};
pub use prompt::{BoundPrompt, PromptBuilder, PromptOutput, PromptRole};
pub use resource::{BoundResource, BoundTemplate, ResourceBuilder, ResourceContents, TemplateBuilder};
pub use schema::schema_of;
pub use server::InProcessServer;
pub use subscription::ChangeNotifier;
pub use tool::{BoundTool, NoArguments, ToolBuilder};
