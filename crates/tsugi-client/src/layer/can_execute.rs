//! A program's own word before a tool is called: may this call be made, with these arguments?

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use arc_swap::ArcSwap;
use serde_json::Value;
use tsugi_protocol::answer::{Answer, Call, Fault, FaultCode, Reply};
use tsugi_protocol::mcp::Method;

type CheckVerdict = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;
type CheckFunction = Arc<dyn Fn(Value) -> CheckVerdict + Send + Sync>;
type CheckTable = HashMap<(String, String), CheckFunction>;

/// The checks of a program, by server and tool. Cheap to clone; clones share the checks.
#[derive(Clone, Default)]
pub struct CallChecks(Arc<ArcSwap<CheckTable>>);

impl CallChecks {
    /// Asks `check` before every call of a tool; it gives the reason when the call must not be made.
    pub fn set<F>(&self, server: &str, tool: &str, check: impl Fn(Value) -> F + Send + Sync + 'static)
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        let check: CheckFunction = Arc::new(move |arguments| Box::pin(check(arguments)));
        self.change(|table| drop(table.insert((server.to_owned(), tool.to_owned()), check.clone())));
    }

    /// Asks no more.
    pub fn remove(&self, server: &str, tool: &str) {
        self.change(|table| drop(table.remove(&(server.to_owned(), tool.to_owned()))));
    }

    fn change(&self, change: impl Fn(&mut CheckTable)) {
        self.0.rcu(|old| {
            let mut table = CheckTable::clone(old);
            change(&mut table);
            table
        });
    }

    fn find(&self, server: &str, call: &Call) -> Option<CheckFunction> {
        let table = self.0.load();
        if table.is_empty() || call.method != Method::ToolsCall {
            return None;
        }
        table.get(&(server.to_owned(), call.subject()?.into_owned())).cloned()
    }
}

impl std::fmt::Debug for CallChecks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.load().keys()).finish()
    }
}

/// Asks the checks of a program. Without any it costs one look.
pub(crate) struct CanExecuteLayer {
    inner: Arc<dyn Answer>,
    server: Arc<str>,
    checks: CallChecks,
}

impl CanExecuteLayer {
    pub(crate) fn new(inner: Arc<dyn Answer>, server: Arc<str>, checks: CallChecks) -> Self {
        Self { inner, server, checks }
    }
}

impl Answer for CanExecuteLayer {
    fn answer(&self, call: Call) -> Reply {
        let Some(check) = self.checks.find(&self.server, &call) else { return self.inner.answer(call) };
        let arguments = call.params.get("arguments").and_then(|raw| raw.to().ok());
        let verdict = check(arguments.unwrap_or_else(|| Value::Object(Default::default())));
        let (inner, server) = (self.inner.clone(), self.server.clone());
        Reply::from_pending_reply(async move {
            match verdict.await {
                Ok(()) => inner.answer(call),
                Err(reason) => Reply::fault(refused(&server, &call, &reason)),
            }
        })
    }
}

fn refused(server: &str, call: &Call, reason: &str) -> Fault {
    let tool = call.subject().unwrap_or_default();
    let message = format!("{tool:?} cannot be executed with these arguments: {reason}");
    Fault::new(FaultCode::CannotExecute, message).on_server(server).on_tool(&tool)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tsugi_protocol::answer::{CallFailure, Outcome};
    use tsugi_protocol::json::RawJson;

    struct Echo;

    impl Answer for Echo {
        fn answer(&self, call: Call) -> Reply {
            Reply::ready(Outcome::complete(call.into_parts().params))
        }
    }

    async fn outcome(checks: &CallChecks, arguments: Value) -> Outcome {
        let layer = CanExecuteLayer::new(Arc::new(Echo), "files".into(), checks.clone());
        layer.answer(Call::tool("remove", Some(&RawJson::from(arguments)))).outcome().await
    }

    #[tokio::test]
    async fn a_programs_check_stops_a_call_and_lets_others_pass() {
        let checks = CallChecks::default();
        checks.set("files", "remove", |arguments| async move {
            if arguments["path"] == "/" { Err("that is everything".to_owned()) } else { Ok(()) }
        });
        assert!(matches!(outcome(&checks, json!({"path": "/tmp/x"})).await, Outcome::Complete(_)));
        let Outcome::Failed(CallFailure::Fault(fault)) = outcome(&checks, json!({"path": "/"})).await else {
            panic!("the check was not asked");
        };
        assert_eq!(fault.code, FaultCode::CannotExecute);
        assert!(fault.message.contains("that is everything"), "{}", fault.message);
        checks.remove("files", "remove");
        assert!(matches!(outcome(&checks, json!({"path": "/"})).await, Outcome::Complete(_)));
    }

    #[tokio::test]
    async fn checks_of_another_server_are_not_asked() {
        let checks = CallChecks::default();
        checks.set("other", "remove", |_| async { Err("never".to_owned()) });
        assert!(matches!(outcome(&checks, json!({})).await, Outcome::Complete(_)));
    }
}
