//! Handlers that need input: the questions, the retry, and clients that cannot be asked.

use super::*;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Name {
    name: String,
}

fn asking() -> Arc<InProcessServer> {
    let ask = |_: NoArguments, cx: HandlerContext| async move {
        match cx.elicited::<Name>("who")? {
            None => Err(NeedInput::new().form("who", "Who are you?", &schema_of::<Name>()).state("step 1").into()),
            Some(ElicitationAnswer::Accepted(who)) => {
                Ok(format!("hello {} after {}", who.name, cx.state().unwrap_or("nothing")))
            }
            Some(ElicitationAnswer::Declined) => Err("declined".into()),
            Some(ElicitationAnswer::Cancelled) => Err("cancelled".into()),
        }
    };
    InProcessServer::builder("asking", "1")
        .tool(ToolBuilder::new("ask", "Asks.").handler(ask))
        .tool(ToolBuilder::new("ask_all", "Asks everything.").handler(|_: NoArguments, _| async {
            let all = NeedInput::new()
                .url("go", "Please go there.", "https://example.com/")
                .sampling("model", json!({"messages": [], "maxTokens": 5}).into())
                .roots("roots");
            Err::<TextOutput<&str>, _>(all.into())
        }))
        .tool(
            ToolBuilder::new("pause", "Only keeps state.")
                .handler(|_: NoArguments, _| async { Err::<TextOutput<&str>, _>(NeedInput::new().into()) }),
        )
        .tool(ToolBuilder::new("strict", "Needs roots.").handler(|_: NoArguments, cx: HandlerContext| async move {
            cx.require(&Method::RootsList)?;
            Ok(TextOutput("ok"))
        }))
        .prompt(PromptBuilder::new("p", "").handler(|_: NoArguments, _| async { Ok(PromptOutput::user("")) }))
        .completion(|_, _| async { Err(NeedInput::new().roots("r").into()) })
        .build()
}

async fn questions(server: &InProcessServer, call: Call) -> Value {
    match server.answer(call).outcome().await {
        Outcome::InputRequired(input) => input.to_result().raw().to().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_tool_asks_and_is_called_again_with_the_answer_and_its_state() {
    let server = asking();
    let first = with_client(tool("ask", json!({})), ClientCapabilities::all());
    let asked = questions(&server, first.clone()).await;
    assert_eq!(asked["requestState"], "step 1");
    assert_eq!(asked["inputRequests"]["who"]["method"], "elicitation/create");
    assert_eq!(asked["inputRequests"]["who"]["params"]["requestedSchema"]["required"], json!(["name"]));

    let answers = RawJson::from(json!({"who": {"action": "accept", "content": {"name": "Ann"}}, "other": {}}));
    let retry = first.clone().retry_with(Some(&answers), Some("step 1"));
    assert_eq!(result(&server, retry).await["content"][0]["text"], "hello Ann after step 1");

    let declined = first.clone().retry_with(Some(&RawJson::from(json!({"who": {"action": "decline"}}))), None);
    assert_eq!(result(&server, declined).await["isError"], true);

    let broken = first.retry_with(Some(&RawJson::from(json!({"who": {"action": "accept", "content": {}}}))), None);
    assert_eq!(error(&server, broken).await["code"], -32602);
}

#[tokio::test]
async fn a_client_that_cannot_answer_is_told_which_capabilities_are_missing() {
    let server = asking();
    let nothing = error(&server, tool("ask_all", json!({}))).await;
    assert_eq!(nothing["code"], -32021);
    assert_eq!(
        nothing["data"]["requiredCapabilities"],
        json!({"elicitation": {"url": {}}, "sampling": {}, "roots": {}})
    );
    assert_eq!(error(&server, tool("strict", json!({}))).await["data"]["requiredCapabilities"], json!({"roots": {}}));
    let able = with_client(tool("strict", json!({})), ClientCapabilities::all());
    assert_eq!(result(&server, able).await["content"][0]["text"], "ok");
}

#[tokio::test]
async fn a_result_that_only_keeps_state_has_state() {
    assert_eq!(questions(&asking(), tool("pause", json!({}))).await["requestState"], "");
}

#[tokio::test]
async fn what_may_not_ask_does_not_ask() {
    let params = json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}});
    let complete = with_client(call(Method::Complete, params), ClientCapabilities::all());
    assert_eq!(error(&asking(), complete).await["code"], -32603);
}

#[tokio::test]
async fn questions_are_as_the_official_schema_says() {
    let Some(schema) = official::Official::load() else { return };
    let all = with_client(tool("ask_all", json!({})), ClientCapabilities::all());
    schema.check("InputRequiredResult", &questions(&asking(), all).await);
    let form = with_client(tool("ask", json!({})), ClientCapabilities::all());
    schema.check("InputRequiredResult", &questions(&asking(), form).await);
    let error = error(&asking(), tool("ask_all", json!({}))).await;
    schema.check("MissingRequiredClientCapabilityError", &json!({"jsonrpc": "2.0", "id": 1, "error": error}));
}
