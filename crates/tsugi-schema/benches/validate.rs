//! Prints what compiling and checking cost, so that a slower version is noticed before a user notices it.
#![allow(clippy::print_stdout)]

use serde_json::{Map, Value, json};
use std::hint::black_box;
use std::time::Instant;
use tsugi_schema::validate::{ValidationLimits, Validator};

fn main() {
    let schema = schema();
    let value = value();
    let validator = Validator::compile(&schema, ValidationLimits::default()).expect("the schema compiles");
    assert!(validator.validate(&value).is_ok());
    let text = value.to_string();
    let parse = |text: &str| serde_json::from_str::<Value>(text).expect("the value is JSON");
    let mut wrong = value.clone();
    wrong["property_7"] = json!([]);

    measure("compile, 20 properties", 200, || {
        black_box(Validator::compile(&schema, ValidationLimits::default()).is_ok());
    });
    measure("validate, 20 properties", 100_000, || {
        black_box(validator.validate(black_box(&value)).is_ok());
    });
    measure("parse and validate, 20 properties", 100_000, || {
        black_box(validator.validate(&parse(black_box(&text))).is_ok());
    });
    measure("validate with one fault", 50_000, || {
        black_box(validator.validate(black_box(&wrong)).is_err());
    });
}

fn schema() -> Value {
    let properties: Map<String, Value> = (0..20).map(|number| (format!("property_{number}"), kind(number))).collect();
    let required: Vec<&String> = properties.keys().collect();
    json!({"type": "object", "required": required, "properties": properties, "additionalProperties": false})
}

fn kind(number: usize) -> Value {
    match number % 5 {
        0 => json!({"type": "string", "minLength": 1, "maxLength": 100}),
        1 => json!({"type": "integer", "minimum": 0, "maximum": 1000}),
        2 => json!({"type": "boolean"}),
        3 => json!({"type": "string", "enum": ["red", "green", "blue"]}),
        _ => json!({"type": "array", "items": {"type": "string", "pattern": "^[a-z]+$"}}),
    }
}

fn value() -> Value {
    let members = (0..20).map(|number| {
        let value = match number % 5 {
            0 => json!("some text"),
            1 => json!(42),
            2 => json!(true),
            3 => json!("blue"),
            _ => json!(["one", "two"]),
        };
        (format!("property_{number}"), value)
    });
    Value::Object(members.collect())
}

/// CPU time of this thread, so that what else the machine does is not counted; wall time where it cannot be had.
fn clock(start: Instant) -> f64 {
    let spent = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = spent.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    nanoseconds.map_or_else(|| start.elapsed().as_secs_f64() * 1e6, |count| count / 1e3)
}

fn measure(name: &str, rounds: u32, mut work: impl FnMut()) {
    work();
    let start = Instant::now();
    let before = clock(start);
    for _ in 0..rounds {
        work();
    }
    let each = (clock(start) - before) / f64::from(rounds);
    println!("{name:<36} {each:>10.2} µs");
}
