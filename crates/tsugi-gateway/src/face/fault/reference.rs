//! The reference page of errors, made from the codes, their comments and the tables of the faces.

use tsugi_protocol::answer::{Fault, FaultCode, SentState};

use super::rest_code;

/// Where the codes and what they mean are written.
const SOURCE: &str = include_str!("../../../../tsugi-protocol/src/answer/fault.rs");

const HEAD: &str = "# Errors

<!-- Generated from `crates/tsugi-protocol/src/answer/fault.rs` and `crates/tsugi-gateway/src/face/fault.rs`. `UPDATE_GOLDEN=1 cargo nextest run -p tsugi-gateway reference` writes it again. -->

The same failure has the same code in the command, the library, the log and the dashboard.
JSON-RPC reports it under a number, with the code as `data.kind`; REST under a word of its own, with a status.
What a server itself answers as an error is passed on as it is.

- *again?* says whether trying again could help (`data.retryable`).
- *effect* says what is known about it (`data.outcome`): `not_sent` means that no byte of the call reached the server, `failed` that the server said so, `unknown` that it may have happened.

Both are what usually holds; a single error may know better.
`data` also names the `stage`, whose `fault` it is, the server, the tool, how its process ended, and a `hint`.

| code | meaning | JSON-RPC | REST | status | again? | effect |
| --- | --- | --- | --- | --- | --- | --- |
";

const TAIL: &str = "
REST reports `MAX_RETRIES_EXCEEDED` as what lies behind it, where that is known.
A status of 503 means that nothing was sent, so that a load balancer may repeat the request. The same error of a call that was sent has the status 502.
`diagnosis` names why a server cannot be used, with the words of [`tsugi doctor`](../guide/doctor.md): `cause`, `message` and `advice`.
Standard error of a server's process (`process.stderr`) and what a diagnosis quotes from it (`diagnosis.quotation`) are shown to administrators only.
Requests that are turned away at the door have a REST word too: `NOT_FOUND` (404) for an address and `METHOD_NOT_ALLOWED` (405) for a verb that is not in [http.md](http.md).
The exit codes of the command are in [exit-codes.md](exit-codes.md).
";

/// Every code with its comment, in the order of the source.
fn codes() -> Vec<(FaultCode, &'static str)> {
    let body = SOURCE.split("pub enum FaultCode {\n").nth(1).expect("the codes are there");
    let body = body.split("\n}").next().expect("the codes end");
    let lines: Vec<&str> = body.lines().map(str::trim).collect();
    lines.chunks(2).map(|pair| (code(pair[1].trim_end_matches(',')), pair[0].trim_start_matches("/// "))).collect()
}

fn code(variant: &str) -> FaultCode {
    let mut word = String::new();
    for letter in variant.chars() {
        if letter.is_uppercase() && !word.is_empty() {
            word.push('_');
        }
        word.push(letter.to_ascii_uppercase());
    }
    serde_json::from_value(word.into()).unwrap_or_else(|_| panic!("{variant} is not a code"))
}

fn row((code, meaning): (FaultCode, &str)) -> String {
    let fault = Fault::new(code, "");
    let (status, word) = rest_code(code);
    let again = if fault.retryable { "yes" } else { "no" };
    let effect = match fault.sent {
        SentState::NotSent => "not_sent",
        SentState::Failed => "failed",
        SentState::Unknown => "unknown",
    };
    let (name, number, status) = (code.as_str(), code.rpc_code(), status.as_u16());
    format!("| `{name}` | {meaning} | {number} | `{word}` | {status} | {again} | `{effect}` |\n")
}

#[test]
fn the_word_of_every_code_is_the_same_in_text_and_in_json() {
    for (code, _) in codes() {
        assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
    }
}

#[test]
fn the_reference_page_of_errors_is_fresh() {
    let rows: String = codes().into_iter().map(row).collect();
    let page = format!("{HEAD}{rows}{TAIL}");
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/errors.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    assert_eq!(page, std::fs::read_to_string(&path).unwrap_or_default(), "UPDATE_GOLDEN=1 writes it again");
}
