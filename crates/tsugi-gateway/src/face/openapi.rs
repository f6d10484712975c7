//! The REST face described for machines: an OpenAPI 3.1 document with each tool's own schemas.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};
use tsugi_protocol::json::RawJson;
use tsugi_schema::dialect::{SchemaDialect, convert_tool};
use tsugi_schema::tool_name::safe_name;

use crate::backend::ToolInfo;

/// The whole document for these tools, where a batch has so many calls at most.
pub(crate) fn document(tools: &[ToolInfo], batch: usize) -> Value {
    let mut paths = fixed_paths();
    let mut schemas = fixed_schemas(batch);
    for tool in tools {
        let name = safe_name(&tool.server, &tool.name);
        let mut operation = schema_of(&name, tool.description.as_deref(), tool.input_schema.as_ref(), &mut schemas);
        // Both schemas of a tool become components, which need different names.
        let output_name = format!("{name}.output");
        let output = schema_of(&output_name, None, tool.output_schema.as_ref(), &mut schemas);
        // Without an output schema the result can be anything.
        let result = match tool.output_schema {
            Some(_) => output["requestBody"]["content"]["application/json"]["schema"].clone(),
            None => json!({}),
        };
        operation["operationId"] = name.as_str().into();
        operation["tags"] = json!([tool.server]);
        operation["responses"] = responses(&result, "post `Answer` to this address with `/answer` after it");
        paths.insert(path(tool), json!({"post": operation}));
    }
    json!({
        "openapi": "3.1.0",
        "info": {"title": "tsugi", "version": env!("CARGO_PKG_VERSION"), "description": "Every tool of every server."},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

fn path(tool: &ToolInfo) -> String {
    // Underscores and hyphens are safe in a path and common in names.
    let encode =
        |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string().replace("%5F", "_").replace("%2D", "-");
    format!("/tools/{}/{}", encode(&tool.server), encode(&tool.name))
}

/// An operation that takes this schema; definitions move to the document's components.
fn schema_of(
    name: &str,
    description: Option<&str>,
    schema: Option<&RawJson>,
    schemas: &mut Map<String, Value>,
) -> Value {
    let schema: Value = schema.and_then(|schema| schema.to_lossy().ok()).unwrap_or_else(|| json!({"type": "object"}));
    let mut declaration =
        convert_tool(name, description.unwrap_or_default(), &schema, SchemaDialect::OpenApi).declaration;
    // Definitions that the schema refers to must be found from the document's root.
    if let Value::Object(components) = declaration["components"].take() {
        schemas.extend(components);
    }
    declaration["operation"].take()
}

/// What an operation may answer, where `input` says how a caller gives what the tool asks for.
fn responses(result: &Value, input: &str) -> Value {
    // Every error has the same schema; only the descriptions differ.
    let error = json!({"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}});
    let with = |description: &str| {
        let mut response = error.clone();
        response["description"] = description.into();
        response
    };
    json!({
        "200": {"description": "what the tool returned", "content": {"application/json": {"schema": result}}},
        "400": with("the arguments do not fit"),
        "403": with("not allowed"),
        "404": with("no such tool or server"),
        "409": with(&format!("the tool asks for input: `error.details` has `inputRequests` and `requestState`; {input}")),
        "413": with("the body is too large"),
        "415": with("the body is not JSON"),
        "429": with("too often"),
        "500": with("the tool failed"),
        "502": with("the server died or cannot be reached"),
        "503": with("the server is not running"),
        "504": with("the server took too long"),
    })
}

fn fixed_paths() -> Map<String, Value> {
    let body = |name: &str| {
        let schema = json!({"$ref": format!("#/components/schemas/{name}")});
        json!({"required": true, "content": {"application/json": {"schema": schema}}})
    };
    let answer = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    let raw = json!({"name": "raw", "in": "query", "schema": {"type": "boolean"}, "description": "give the whole MCP result"});
    let segment = |name: &str| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}});
    let again = "repeat the call with `inputResponses` and that `requestState`";
    let server = json!({"name": "server", "in": "query", "schema": {"type": "string"}, "description": "only this server's tools"});
    let paths = json!({
        "/mcp/tools": {"get": {
            "operationId": "listTools", "parameters": [server],
            "responses": {"200": {"description": "every tool", "content": {"application/json": {"schema": answer("Tools")}}}},
        }},
        "/mcp/call": {"post": {
            "operationId": "callTool", "parameters": [raw], "requestBody": body("Call"),
            "responses": responses(&answer("Success"), again),
        }},
        "/mcp/batch": {"post": {
            "operationId": "callTools", "parameters": [raw], "requestBody": body("Batch"),
            "responses": responses(&answer("Results"), again),
        }},
        "/tools/{server}/{tool}/answer": {"post": {
            "operationId": "answerTool",
            "description": "Goes on with an operation whose tool asked for input.",
            "parameters": [segment("server"), segment("tool"), raw], "requestBody": body("Answer"),
            "responses": responses(&json!({}), again),
        }},
    });
    match paths {
        Value::Object(paths) => paths,
        _ => Map::new(),
    }
}

fn fixed_schemas(batch: usize) -> Map<String, Value> {
    let call = json!({
        "type": "object", "required": ["toolName"],
        "properties": {
            "server": {"type": ["string", "null"]}, "toolName": {"type": "string"},
            "input": {"type": ["object", "null"]},
            "inputResponses": {"type": ["object", "null"]}, "requestState": {"type": ["string", "null"]},
        },
    });
    let error = json!({
        "type": "object", "required": ["success", "error"],
        "properties": {
            "success": {"const": false},
            "error": {
                "type": "object", "required": ["code", "message"],
                "properties": {"code": {"type": "string"}, "message": {"type": "string"}, "details": {}},
            },
        },
    });
    let answer = json!({
        "type": "object", "required": ["requestState"],
        "properties": {
            "input": {"type": ["object", "null"], "description": "the arguments, as they were posted before"},
            "inputResponses": {"type": ["object", "null"], "description": "an answer under each key of `inputRequests`"},
            "requestState": {"type": ["string", "null"], "description": "as it came with the questions"},
        },
    });
    let schemas = json!({
        "Call": call,
        "Answer": answer,
        "Batch": {
            "type": "object", "required": ["calls"],
            "properties": {"calls": {"type": "array", "maxItems": batch, "items": {"$ref": "#/components/schemas/Call"}}},
        },
        "Success": {"type": "object", "required": ["success", "result"], "properties": {"success": {"const": true}, "result": {}}},
        "Results": {
            "type": "object", "required": ["success", "results"],
            "properties": {"success": {"const": true}, "results": {"type": "array", "items": {
                "anyOf": [{"$ref": "#/components/schemas/Success"}, {"$ref": "#/components/schemas/Error"}],
            }}},
        },
        "Tools": {"type": "object", "required": ["tools"], "properties": {"tools": {"type": "array", "items": {
            "type": "object", "required": ["name", "server", "timeout"],
            "properties": {
                "name": {"type": "string"}, "server": {"type": "string"}, "description": {"type": "string"},
                "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}, "annotations": {"type": "object"},
                "timeout": {"type": "integer"},
            },
        }}}},
        "Error": error,
    });
    match schemas {
        Value::Object(schemas) => schemas,
        _ => Map::new(),
    }
}
