//! The REST face described for machines: an OpenAPI 3.1 document with each tool's own schemas.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};
use tsugi_auth::scope::ScopeSet;
use tsugi_protocol::json::RawJson;
use tsugi_schema::dialect::{SchemaDialect, convert_tool};
use tsugi_schema::tool_name::safe_name;

use crate::backend::ToolInfo;
use crate::guard::AccessGuard;
use crate::guard::oauth::resource::{ResourceDirectory, ResourcePath};
use crate::guard::oauth::scope_rules::ScopeSubject;

/// The whole document for these tools, where a batch has so many calls at most.
pub(crate) fn document(tools: &[ToolInfo], batch: usize, security: &DocumentSecurity<'_>) -> Value {
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
        if let Some(needed) = security.of_tool(tool) {
            operation["security"] = needed;
        }
        paths.insert(path(tool), json!({"post": operation}));
    }
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {"title": "tsugi", "version": env!("CARGO_PKG_VERSION"), "description": "Every tool of every server."},
        "paths": paths,
        "components": {"schemas": schemas},
    });
    if let Some(schemes) = security.schemes() {
        document["components"]["securitySchemes"] = schemes;
        document["security"] = security.requirement(&ScopeSet::default());
    }
    document
}

/// Which credentials the gateway takes, as the document says it.
///
/// There is no `oauth2` scheme: its addresses are the issuer's to say, and the document would be wrong when they change.
/// Clients find them through the metadata that the description of `token` names.
pub(crate) struct DocumentSecurity<'a> {
    takes_keys: bool,
    resources: Option<&'a ResourceDirectory>,
}

impl<'a> DocumentSecurity<'a> {
    pub(crate) fn of(guard: &'a AccessGuard) -> Self {
        Self { takes_keys: guard.has_keys(), resources: guard.resources() }
    }

    fn schemes(&self) -> Option<Value> {
        let mut schemes = Map::new();
        if self.takes_keys {
            schemes.insert("key".to_owned(), json!({"type": "http", "scheme": "bearer", "description": "An API key."}));
            schemes.insert("keyHeader".to_owned(), json!({"type": "apiKey", "in": "header", "name": "X-Api-Key"}));
        }
        if let Some(resources) = self.resources {
            let metadata = resources.metadata_address(ResourcePath::Root);
            let issuers = resources.issuers().join(", ");
            let description = format!("An access token of {issuers}, for the resource that {metadata} describes.");
            let scopes = resources.base().union(&resources.rules().all());
            schemes.insert(
                "token".to_owned(),
                json!({
                    "type": "http", "scheme": "bearer", "bearerFormat": "JWT", "description": description,
                    "x-protected-resource-metadata": metadata,
                    "x-scopes": scopes.iter().collect::<Vec<_>>(),
                }),
            );
        }
        (!schemes.is_empty()).then_some(Value::Object(schemes))
    }

    /// Any of the credentials; a token with these scopes beside the base ones. OpenAPI 3.1 lets schemes of every type
    /// name the roles that are needed.
    fn requirement(&self, scopes: &ScopeSet) -> Value {
        let mut any = Vec::new();
        if let Some(resources) = self.resources {
            let scopes = resources.base().union(scopes);
            any.push(json!({"token": scopes.iter().collect::<Vec<_>>()}));
        }
        if self.takes_keys {
            any.extend([json!({"key": []}), json!({"keyHeader": []})]);
        }
        Value::Array(any)
    }

    /// What a tool needs, where that is more than the rest.
    fn of_tool(&self, tool: &ToolInfo) -> Option<Value> {
        let needed = self.resources?.rules().needed(&tool.server, ScopeSubject::Name(&tool.own));
        (!needed.is_empty()).then(|| self.requirement(&needed))
    }
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
