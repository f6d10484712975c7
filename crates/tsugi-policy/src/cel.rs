//! Conditions in CEL, the Common Expression Language.
//!
//! Fields are handed to the interpreter one by one under their whole names, so nothing is built that a condition does not
//! read. What a condition may name is checked when it is compiled: CEL itself would find a wrong name only when it is
//! evaluated, and a rule with one would never match.

mod check;
mod network;
mod variables;

use std::sync::{Arc, LazyLock};

use cel::{Context, Env, ExecutionError, Program, Value};

use crate::arguments::CallArguments;
use crate::condition::{ConditionLanguage, ConditionProblem, ConditionReads, EvaluationError, RuleCondition};
use crate::question::PolicyQuestion;
use crate::rule::RuleEffect;
use check::ConditionCheck;
use variables::QuestionVariables;

/// CEL without optional values and regular expressions.
pub(crate) struct CelLanguage;

/// The functions, shared by all conditions.
static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(network::add(Env::stdlib())));

#[derive(Debug)]
struct CelCondition {
    program: Program,
    reads: ConditionReads,
}

impl ConditionLanguage for CelLanguage {
    fn compile(&self, source: &str, effect: RuleEffect) -> Result<Box<dyn RuleCondition>, Vec<ConditionProblem>> {
        let program = Program::compile(source).map_err(|errors| {
            let problem = |error: &cel::ParseError| ConditionProblem {
                offset: offset(source, error.pos),
                message: format!("the condition cannot be read: {}", plain(&error.msg)),
                hint: None,
            };
            // The parser goes on after a mistake and reports what follows from it.
            errors.errors.iter().take(1).map(problem).collect::<Vec<_>>()
        })?;
        let reads = ConditionCheck::run(&program, effect)?;
        Ok(Box::new(CelCondition { program, reads }))
    }
}

impl RuleCondition for CelCondition {
    fn reads(&self) -> &ConditionReads {
        &self.reads
    }

    fn holds(&self, question: &PolicyQuestion<'_>) -> Result<bool, EvaluationError> {
        let variables = QuestionVariables::new(question);
        let mut context = Context::with_env(ENVIRONMENT.clone());
        context.set_variable_resolver(&variables);
        match self.program.execute(&context) {
            Ok(Value::Bool(holds)) => Ok(holds),
            Ok(_) => Err(EvaluationError("the condition is neither true nor false".to_owned())),
            Err(error) => Err(EvaluationError(explain(&error, question))),
        }
    }
}

/// Why a condition has no answer. Values of arguments are left out: the text goes to the log.
fn explain(error: &ExecutionError, question: &PolicyQuestion<'_>) -> String {
    match (error, question.context.arguments) {
        (ExecutionError::UndeclaredReference(_), CallArguments::Truncated) => "the arguments are too large".to_owned(),
        (ExecutionError::UndeclaredReference(_), CallArguments::Ambiguous(reason)) => {
            format!("the arguments are ambiguous: {reason}")
        }
        (ExecutionError::UndeclaredReference(_), CallArguments::Absent) => "there are no arguments".to_owned(),
        (ExecutionError::NoSuchKey(key), _) => format!("there is no `{key}`"),
        (ExecutionError::NoSuchOverload(overload), _) => {
            let types = overload.argument_types().join(", ");
            format!("`{}` does not work on {types}", overload.function().trim_matches('_'))
        }
        (ExecutionError::IndexOutOfBounds(_), _) => "an index is out of bounds".to_owned(),
        (ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_), _) => "a division by zero".to_owned(),
        (ExecutionError::Overflow(..), _) => "a number is too large".to_owned(),
        (ExecutionError::FunctionError { function, message }, _) => format!("`{function}`: {message}"),
        _ => "a value has the wrong type".to_owned(),
    }
}

/// The character at a line and column, both counted from one.
fn offset(source: &str, (line, column): (isize, isize)) -> usize {
    let line = usize::try_from(line).unwrap_or(1).max(1);
    let column = usize::try_from(column).unwrap_or(1).max(1);
    let before: usize = source.split_inclusive('\n').take(line - 1).map(|line| line.chars().count()).sum();
    before + column - 1
}

/// The parser's own words, without their capitals at the front.
fn plain(message: &str) -> String {
    let mut letters = message.chars();
    let first = letters.next().map(|letter| letter.to_lowercase().to_string()).unwrap_or_default();
    first + letters.as_str()
}
