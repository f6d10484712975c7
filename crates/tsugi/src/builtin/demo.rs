//! The demo server: a few tools to try tsugi without any other server.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tsugi_protocol::json::RawJson;
use tsugi_protocol::mcp::log::LogLevel;
use tsugi_protocol::rpc::{RpcError, code};
use tsugi_protocol::serve::{
    BoundTool, ElicitationAnswer, HandlerContext, HandlerError, InProcessServer, NeedInput, NoArguments, PromptBuilder,
    PromptOutput, ResourceBuilder, ResourceContents, StructuredOutput, TemplateBuilder, ToolBuilder,
};

/// The description of the server, for models and in its resource.
const ABOUT: &str = "A small server that is part of tsugi, to try things with. Nothing it does has an effect anywhere.";
/// A wait has at most this many seconds, and this many reports.
const LONGEST_WAIT: f64 = 60.0;
const MOST_STEPS: u32 = 1000;

pub(crate) fn server() -> Arc<InProcessServer> {
    InProcessServer::builder("demo", env!("CARGO_PKG_VERSION"))
        .title("tsugi demo")
        .instructions(ABOUT)
        // Lets clients try log levels.
        .with_logging()
        .tool(calculate_bmi())
        .tool(echo())
        .tool(greet())
        .tool(wait())
        .tool(show_roots())
        .resource(
            ResourceBuilder::new("demo://about", "about")
                .mime_type("text/plain")
                .description("What this server is.")
                .handler(|_| async { Ok(ResourceContents::text(ABOUT)) }),
        )
        .template(
            TemplateBuilder::new("demo://bmi/{weight_kg}/{height_m}", "bmi")
                .mime_type("application/json")
                .description("The body mass index of a weight and a height.")
                .handler(|body: BodyAddress, _| async move { read_bmi(&body) }),
        )
        .prompt(
            PromptBuilder::new("explain-bmi", "Asks a model to explain a body mass index.")
                .title("Explain a BMI")
                .handler(|topic: ExplainArguments, _| async move { Ok(PromptOutput::user(explain(&topic))) }),
        )
        .build()
}

/// Removes `format` keywords such as `uint8`: callers need only the range.
fn without_formats(schema: &mut schemars::Schema) {
    let properties = schema.get_mut("properties").and_then(serde_json::Value::as_object_mut);
    for property in properties.into_iter().flat_map(|properties| properties.values_mut()) {
        // Providers reject formats they do not know.
        property.as_object_mut().map(|property| property.remove("format"));
    }
}

#[derive(Deserialize, JsonSchema)]
#[schemars(inline, transform = without_formats)]
struct BodyMeasures {
    /// Weight in kilograms
    weight_kg: f64,
    /// Height in meters
    height_m: f64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline, transform = without_formats)]
struct BmiResult {
    /// Weight divided by the square of the height, with two decimals
    bmi: f64,
    /// What the World Health Organization calls it
    category: BmiCategory,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum BmiCategory {
    Underweight,
    Normal,
    Overweight,
    Obese,
}

impl BmiCategory {
    fn of(bmi: f64) -> Self {
        match bmi {
            // The limits of the World Health Organization.
            bmi if bmi < 18.5 => BmiCategory::Underweight,
            bmi if bmi < 25.0 => BmiCategory::Normal,
            bmi if bmi < 30.0 => BmiCategory::Overweight,
            _ => BmiCategory::Obese,
        }
    }
}

fn calculate_bmi() -> BoundTool {
    ToolBuilder::new("calculate-bmi", "Calculate Body Mass Index")
        .title("Body mass index")
        .read_only()
        .open_world(false)
        .handler(|body: BodyMeasures, _| async move { bmi(&body).map(StructuredOutput) })
}

fn bmi(body: &BodyMeasures) -> Result<BmiResult, HandlerError> {
    let wrong = [("weight_kg", body.weight_kg), ("height_m", body.height_m)]
        .into_iter()
        // A NaN is neither positive nor negative, so it needs its own test.
        .find(|(_, value)| value.is_nan() || *value <= 0.0);
    if let Some((name, _)) = wrong {
        let data = RawJson::from(json!({"reason": format!("{name} must be positive")}));
        return Err(RpcError::with_data(code::INVALID_PARAMS, "Invalid params", Some(&data)).into());
    }
    let bmi = body.weight_kg / (body.height_m * body.height_m);
    // The category uses the unrounded value.
    Ok(BmiResult { bmi: (bmi * 100.0).round() / 100.0, category: BmiCategory::of(bmi) })
}

/// The parts of an address are text.
#[derive(Deserialize)]
struct BodyAddress {
    weight_kg: String,
    height_m: String,
}

fn read_bmi(body: &BodyAddress) -> Result<ResourceContents, HandlerError> {
    let number =
        |text: &str| text.parse().map_err(|_| HandlerError::invalid_params(format!("{text:?} is not a number")));
    let body = BodyMeasures { weight_kg: number(&body.weight_kg)?, height_m: number(&body.height_m)? };
    bmi(&body).map(|bmi| ResourceContents::json(&RawJson::from_value(&bmi)))
}

#[derive(Deserialize, JsonSchema)]
#[schemars(inline, transform = without_formats)]
struct EchoArguments {
    /// What is said back
    message: String,
    /// How often
    #[serde(default = "once")]
    times: u8,
}

fn once() -> u8 {
    1
}

fn echo() -> BoundTool {
    ToolBuilder::new("echo", "Say something back")
        .read_only()
        .idempotent()
        .open_world(false)
        // `times` is a u8, which bounds the size of the result.
        .handler(|echo: EchoArguments, _| async move { Ok(vec![echo.message; echo.times.into()].join("\n")) })
}

#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
struct GreetingAnswer {
    /// What you want to be called
    #[schemars(length(min = 1, max = 80))]
    name: String,
    /// How you like to be spoken to
    tone: Option<GreetingTone>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum GreetingTone {
    Plain,
    Cheerful,
}

fn greet() -> BoundTool {
    ToolBuilder::new("greet", "Ask the user for a name, then greet")
        .read_only()
        .open_world(false)
        .handler(|_: NoArguments, context| async move { greeting(&context) })
}

fn greeting(context: &HandlerContext) -> Result<String, HandlerError> {
    match context.elicited::<GreetingAnswer>("who")? {
        // First round: the call comes back with the answer.
        None => Err(NeedInput::new().form("who", "Who is there?", &greeted_form()).into()),
        Some(ElicitationAnswer::Accepted(GreetingAnswer { name, tone: Some(GreetingTone::Cheerful) })) => {
            Ok(format!("Hello {name}, how lovely!"))
        }
        Some(ElicitationAnswer::Accepted(GreetingAnswer { name, .. })) => Ok(format!("Hello {name}.")),
        Some(ElicitationAnswer::Declined) => Ok("Hello, stranger.".to_owned()),
        Some(ElicitationAnswer::Cancelled) => Err(HandlerError::failed("the greeting was cancelled")),
    }
}

/// Forms are flat and of few types, so this is written out and not derived.
fn greeted_form() -> RawJson {
    RawJson::from(json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "title": "Name", "description": "What you want to be called", "minLength": 1, "maxLength": 80},
            "tone": {"type": "string", "title": "Tone", "enum": ["plain", "cheerful"], "default": "plain"},
        },
        "required": ["name"],
    }))
}

#[derive(Deserialize, JsonSchema)]
#[schemars(inline, transform = without_formats)]
struct WaitArguments {
    /// How long, in seconds; at most 60
    #[serde(default = "few_seconds")]
    seconds: f64,
    /// How often to report progress on the way
    #[serde(default = "few_steps")]
    steps: u32,
}

fn few_seconds() -> f64 {
    3.0
}

fn few_steps() -> u32 {
    10
}

fn wait() -> BoundTool {
    ToolBuilder::new("wait", "Wait for a while and report progress")
        .read_only()
        .idempotent()
        .open_world(false)
        .handler(|wait: WaitArguments, context| async move { pass_time(&wait, &context).await })
}

async fn pass_time(wait: &WaitArguments, context: &HandlerContext) -> Result<String, HandlerError> {
    // The range test also rejects NaN.
    if !(0.0..=LONGEST_WAIT).contains(&wait.seconds) {
        return Err(HandlerError::failed(format!("seconds must be between 0 and {LONGEST_WAIT}")));
    }
    let steps = wait.steps.clamp(1, MOST_STEPS);
    context.log(LogLevel::Info, Some("wait"), format!("waiting {} seconds", wait.seconds));
    for step in 1..=steps {
        tokio::time::sleep(Duration::from_secs_f64(wait.seconds / f64::from(steps))).await;
        context.progress(step.into(), Some(steps.into()), Some("waiting"));
    }
    Ok(format!("Waited {} seconds.", wait.seconds))
}

fn show_roots() -> BoundTool {
    ToolBuilder::new("show-roots", "Show which directories the client works in")
        .read_only()
        .open_world(false)
        .handler(|_: NoArguments, context| async move { roots(&context) })
}

fn roots(context: &HandlerContext) -> Result<String, HandlerError> {
    let Some(answer) = context.response("roots") else {
        return Err(NeedInput::new().roots("roots").into());
    };
    let answer: serde_json::Value = answer.to().map_err(HandlerError::invalid_params)?;
    let uris = answer["roots"].as_array().into_iter().flatten().filter_map(|root| root["uri"].as_str());
    Ok(uris.collect::<Vec<_>>().join("\n"))
}

/// What to explain.
#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
struct ExplainArguments {
    /// The body mass index
    bmi: String,
    /// For whom, such as "a child" or "a doctor"
    reader: Option<String>,
}

fn explain(topic: &ExplainArguments) -> String {
    let reader = topic.reader.as_deref().unwrap_or("an adult without medical training");
    format!("Explain to {reader} what a body mass index of {} means, and what it does not mean.", topic.bmi)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn category_of(weight_kg: f64) -> BmiCategory {
        bmi(&BodyMeasures { weight_kg, height_m: 1.75 }).unwrap().category
    }

    #[test]
    fn the_index_of_seed_001_is_the_one_it_shows() {
        let bmi = bmi(&BodyMeasures { weight_kg: 70.0, height_m: 1.75 }).unwrap();
        assert_eq!(serde_json::to_value(bmi).unwrap(), json!({"bmi": 22.86, "category": "normal"}));
    }

    #[test]
    fn categories_change_where_the_world_health_organization_says() {
        let categories = [50.0, 70.0, 80.0, 95.0].map(category_of);
        assert_eq!(
            categories,
            [BmiCategory::Underweight, BmiCategory::Normal, BmiCategory::Overweight, BmiCategory::Obese]
        );
    }

    #[test]
    fn a_body_that_cannot_be_is_refused_with_the_reason() {
        for (weight_kg, height_m, reason) in [
            (0.0, 1.0, "weight_kg must be positive"),
            (70.0, -1.0, "height_m must be positive"),
            (f64::NAN, 1.0, "weight_kg"),
        ] {
            let Err(HandlerError::Rpc(error)) = bmi(&BodyMeasures { weight_kg, height_m }) else {
                panic!("{weight_kg} {height_m}")
            };
            assert_eq!(error.code(), code::INVALID_PARAMS);
            assert!(error.data().unwrap().as_str().contains(reason));
        }
    }
}
