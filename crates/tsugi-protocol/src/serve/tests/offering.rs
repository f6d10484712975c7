//! Tools, resources, prompts and completion from the outside.

use super::*;

#[tokio::test]
async fn a_typed_tool_gives_structured_content_and_the_same_as_text() {
    let result = result(&server(), tool("add", json!({"a": 1, "b": 2}))).await;
    assert_eq!(result["structuredContent"], json!({"sum": 3}));
    assert_eq!(result["content"], json!([{"type": "text", "text": "{\"sum\":3}"}]));
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "demo");
    assert!(result.get("isError").is_none());
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_told_to_the_model_by_name() {
    let server = server();
    for (arguments, told) in [
        (json!({"a": 1, "b": "two"}), "invalid argument `b`: invalid type: string \"two\", expected i64"),
        (json!({"a": 1}), "invalid arguments: missing field `b`"),
    ] {
        let result = result(&server, tool("add", arguments)).await;
        assert_eq!(result["isError"], true);
        assert_eq!(result["content"][0]["text"], told);
    }
}

#[tokio::test]
async fn what_the_request_itself_gets_wrong_is_a_protocol_error() {
    let server = server();
    for (wrong, code, message) in [
        (tool("nope", json!({})), -32602, "unknown tool: nope"),
        (tool("add", json!([1, 2])), -32602, "`arguments` must be an object"),
        (call(Method::ToolsCall, json!({})), -32602, "`name` is missing or not a string"),
        (call(Method::PromptsGet, json!({"name": "nope"})), -32602, "unknown prompt: nope"),
        (call(Method::PromptsGet, json!({"name": "greet"})), -32602, "invalid arguments: missing field `name`"),
        (call(Method::ToolsList, json!({"cursor": "nope"})), -32602, "unknown cursor"),
        (call(Method::ToolsList, json!({"cursor": 5})), -32602, "`cursor` must be a string"),
        (call(Method::Listen, json!({})), -32602, "`notifications` is missing"),
        (call(Method::Complete, json!({"ref": {"type": "ref/odd"}})), -32602, "`ref` is missing or of an unknown kind"),
        (call(Method::from("vendor/x"), json!({})), -32601, "unknown method: vendor/x"),
        (call(Method::Ping, json!({})), -32601, "unknown method: ping"),
    ] {
        let error = error(&server, wrong).await;
        assert_eq!((error["code"].as_i64(), error["message"].as_str()), (Some(code), Some(message)));
    }
}

#[tokio::test]
async fn a_server_without_a_feature_does_not_know_its_methods() {
    let bare = InProcessServer::builder("bare", "1").build();
    for method in [Method::ToolsList, Method::ToolsCall, Method::ResourcesList, Method::PromptsGet, Method::Complete] {
        assert_eq!(error(&bare, Call::bare(method)).await["code"], -32601);
    }
    assert_eq!(result(&bare, Call::bare(Method::Discover)).await["capabilities"], json!({}));
}

#[tokio::test]
async fn a_failing_tool_says_so_in_its_result() {
    let result = result(&server(), tool("fail", json!({}))).await;
    assert_eq!(result["isError"], true);
    assert_eq!(result["content"][0]["text"], "no luck");
}

#[tokio::test]
async fn a_panic_ends_its_own_call_and_nothing_else() {
    let server = server();
    assert_eq!(error(&server, tool("break", json!({}))).await["code"], -32603);
    assert_eq!(result(&server, tool("add", json!({"a": 1, "b": 1}))).await["structuredContent"]["sum"], 2);
}

#[tokio::test]
async fn a_raw_tool_sees_its_arguments_byte_for_byte() {
    let arguments = RawJson::literal(r#"{"b": 1.50,"a":"\u0041"}"#);
    let result = result(&server(), Call::tool("echo", Some(&arguments))).await;
    assert_eq!(result["content"][0]["text"], arguments.as_str());
}

#[tokio::test]
async fn a_result_of_ones_own_keeps_its_members_and_its_meta() {
    let own = json!({"content": [], "vendor": 1, "_meta": {"x/y": 2}});
    let result = result(&server(), tool("whole", own)).await;
    assert_eq!((&result["vendor"], &result["_meta"]["x/y"]), (&json!(1), &json!(2)));
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["version"], "1.0.0");
}

#[tokio::test]
async fn tools_are_listed_with_derived_schemas_in_the_order_they_were_added() {
    let list = result(&server(), Call::bare(Method::ToolsList)).await;
    let names: Vec<&str> =
        list["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["add", "fail", "break", "work", "echo", "whole"]);
    let add = &list["tools"][0];
    assert_eq!(add["inputSchema"]["required"], json!(["a", "b"]));
    assert_eq!(add["inputSchema"]["properties"]["a"]["description"], "The first number.");
    assert_eq!(add["outputSchema"]["properties"]["sum"]["type"], "integer");
    assert_eq!(add["annotations"], json!({"readOnlyHint": true}));
    assert_eq!(list["tools"][1]["inputSchema"], json!({"type": "object", "additionalProperties": false}));
    assert_eq!((&list["ttlMs"], &list["cacheScope"]), (&json!(60_000), &json!("public")));
}

#[tokio::test]
async fn pages_lead_through_the_whole_list() {
    let mut builder = InProcessServer::builder("paged", "1").page_size(2);
    for name in ["c", "a", "b"] {
        builder = builder.tool(ToolBuilder::new(name, "").handler(|_: NoArguments, _| async { Ok("") }));
    }
    let server = builder.build();
    let first = result(&server, Call::bare(Method::ToolsList)).await;
    assert_eq!(first["tools"].as_array().unwrap().len(), 2);
    let second = result(&server, call(Method::ToolsList, json!({"cursor": first["nextCursor"]}))).await;
    assert_eq!(second["tools"][0]["name"], "b");
    assert!(second.get("nextCursor").is_none());
}

#[tokio::test]
async fn resources_are_read_by_address_and_by_pattern() {
    let server = server();
    let read = |uri: &str| call(Method::ResourcesRead, json!({"uri": uri}));
    let greeting = result(&server, read("demo://greeting")).await;
    assert_eq!(greeting["contents"], json!([{"uri": "demo://greeting", "mimeType": "text/plain", "text": "hello"}]));
    let file = result(&server, read("file:///a%20b.txt")).await;
    assert_eq!(file["contents"], json!([{"uri": "file:///a%20b.txt", "mimeType": "application/json", "text": "{}"}]));
    for missing in ["file:///none", "other://x"] {
        let error = error(&server, read(missing)).await;
        assert_eq!((&error["code"], &error["data"]["uri"]), (&json!(-32602), &json!(missing)));
    }
}

#[tokio::test]
async fn prompts_describe_their_arguments_and_render() {
    let server = server();
    let list = result(&server, Call::bare(Method::PromptsList)).await;
    assert_eq!(
        list["prompts"][0]["arguments"],
        json!([{"name": "name", "required": true, "description": "Whom to greet."}, {"name": "language", "required": false}])
    );
    let prompt =
        result(&server, call(Method::PromptsGet, json!({"name": "greet", "arguments": {"name": "Ann"}}))).await;
    assert_eq!(prompt["messages"], json!([{"role": "user", "content": {"type": "text", "text": "greet Ann in None"}}]));
}

#[tokio::test]
async fn completion_answers_for_prompts_that_exist() {
    let server = server();
    let complete = |name: &str| {
        call(
            Method::Complete,
            json!({"ref": {"type": "ref/prompt", "name": name}, "argument": {"name": "language", "value": "e"}}),
        )
    };
    let completion = result(&server, complete("greet")).await;
    assert_eq!(completion["completion"], json!({"values": ["english", "estonian"], "total": 2, "hasMore": false}));
    assert_eq!(error(&server, complete("nope")).await["code"], -32602);
}

#[tokio::test]
async fn more_than_a_hundred_suggestions_are_cut_and_said_to_be() {
    let server = InProcessServer::builder("many", "1")
        .prompt(PromptBuilder::new("p", "").handler(|_: NoArguments, _| async { Ok(PromptOutput::user("")) }))
        .completion(|_, _| async { Ok(CompletionValues::new((0..150).map(|number| number.to_string()))) })
        .build();
    let params = json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}});
    let completion = &result(&server, call(Method::Complete, params)).await["completion"];
    assert_eq!(completion["values"].as_array().unwrap().len(), 100);
    assert_eq!((&completion["total"], &completion["hasMore"]), (&json!(150), &json!(true)));
}

#[tokio::test]
async fn notes_come_only_to_those_who_asked() {
    let server = server();
    let mut quiet = Vec::new();
    server.answer(tool("work", json!({}))).outcome_with(|note| quiet.push(note)).await;
    assert!(quiet.is_empty());

    let mut asking = tool("work", json!({})).from_caller(crate::answer::Caller::of_key("ann"));
    asking.meta.progress_token = Some(RawJson::literal("\"p\""));
    asking.meta.log_level = Some(LogLevel::Info);
    let mut reply = server.answer(asking);
    assert_eq!(
        note(&mut reply).await["params"],
        json!({"progressToken": "p", "progress": 1.0, "total": 2.0, "message": "half"})
    );
    assert_eq!(note(&mut reply).await["params"], json!({"level": "warning", "logger": "worker", "data": {"left": 1}}));
    assert_eq!(note(&mut reply).await["params"], json!({"progressToken": "p", "progress": 2.0}));
    let ReplyEvent::Done(Outcome::Complete(complete)) = reply.next().await else { panic!() };
    assert!(complete.body.raw().as_str().contains("done for key:ann"));
}

#[tokio::test]
async fn a_reader_that_waits_gets_notes_from_a_task_elsewhere() {
    let server = InProcessServer::builder("far", "1")
        .tool(ToolBuilder::new("far", "").handler(|_: NoArguments, cx: HandlerContext| async move {
            let (end, ended) = tokio::sync::oneshot::channel::<()>();
            tokio::spawn(async move {
                tokio::task::yield_now().await;
                cx.progress(1.0, None, None);
                end.send(()).ok();
                std::future::pending::<()>().await
            });
            ended.await.ok();
            Ok(TextOutput(""))
        }))
        .build();
    let mut asking = tool("far", json!({}));
    asking.meta.progress_token = Some(RawJson::literal("1"));
    assert_eq!(note(&mut server.answer(asking)).await["params"]["progress"], 1.0);
}

#[tokio::test]
async fn dropping_the_reply_drops_the_handler() {
    struct Guard(Option<tokio::sync::oneshot::Sender<()>>);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.take().map(|sender| sender.send(()));
        }
    }
    let (sender, dropped) = tokio::sync::oneshot::channel();
    let guard = parking_lot::Mutex::new(Some(Guard(Some(sender))));
    let server = InProcessServer::builder("slow", "1")
        .tool(ToolBuilder::new("slow", "").handler(move |_: NoArguments, _| {
            let guard = guard.lock().take();
            async move {
                let _guard = guard;
                std::future::pending::<Result<TextOutput<&str>, HandlerError>>().await
            }
        }))
        .build();
    let mut reply = server.answer(tool("slow", json!({})));
    assert!(is_waiting(&mut reply));
    drop(reply);
    dropped.await.unwrap();
}
