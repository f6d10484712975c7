//! The dialogue itself: prompts on stderr, keys from the terminal.

use std::io;

use dialoguer::console::Term;
use dialoguer::theme::{SimpleTheme, Theme};
use dialoguer::{Input, MultiSelect, Select};
use serde_json::{Map, Value};

use super::UserReaction;
use super::form::{FieldInput, FormField};
use crate::tool_arguments::{ValueChoice, text_of};

/// Prompts of one dialogue.
pub(super) struct TerminalPrompt {
    term: Term,
    theme: Box<dyn Theme>,
}

/// The item that leaves a field out.
const NOTHING: &str = "(leave it out)";

impl TerminalPrompt {
    pub(super) fn new() -> Self {
        TerminalPrompt { term: Term::stderr(), theme: Box::new(SimpleTheme) }
    }

    pub(super) fn say(&self, text: &str) -> io::Result<()> {
        self.term.write_line(text)
    }

    /// Whether the person wants to answer at all; `accept` is the word for it.
    pub(super) fn consent(&self, accept: &str) -> io::Result<UserReaction> {
        let items = [accept, "decline", "cancel"];
        let chosen = Select::with_theme(&*self.theme).items(items).default(0).interact_on_opt(&self.term);
        Ok(match chosen.map_err(io_error)? {
            Some(0) => UserReaction::Accept(None),
            Some(1) => UserReaction::Decline,
            _ => UserReaction::Cancel,
        })
    }

    /// Every field in turn; optional ones may be left out.
    pub(super) fn fields(&self, fields: &[FormField]) -> io::Result<Map<String, Value>> {
        let mut values = Map::new();
        for field in fields {
            if let Some(value) = self.field(field)? {
                values.insert(field.name.clone(), value);
            }
        }
        Ok(values)
    }

    fn field(&self, field: &FormField) -> io::Result<Option<Value>> {
        match field.way() {
            FieldInput::Choose(choices) => self.choose(field, choices, 0),
            FieldInput::ChooseSome(choices) => self.choose_some(field, &choices),
            // The default is no: pressing enter without reading is not consent.
            FieldInput::Confirm => self.choose(field, vec![yes_no(true, "yes"), yes_no(false, "no")], 1),
            FieldInput::Type => self.typed(field),
        }
    }

    /// Preselects the field's default, else nothing if the field is optional, else `first`.
    fn choose(&self, field: &FormField, choices: Vec<ValueChoice>, first: usize) -> io::Result<Option<Value>> {
        let default = choices.iter().position(|choice| field.shape.default() == Some(&choice.value));
        let other = if field.is_required { first } else { choices.len() };
        let mut titles: Vec<&str> = choices.iter().map(|choice| choice.title.as_str()).collect();
        if !field.is_required {
            titles.push(NOTHING);
        }
        let select = Select::with_theme(&*self.theme).with_prompt(field.label()).items(&titles);
        let chosen = select.default(default.unwrap_or(other)).interact_on(&self.term).map_err(io_error)?;
        Ok(choices.get(chosen).map(|choice| choice.value.clone()))
    }

    fn choose_some(&self, field: &FormField, choices: &[ValueChoice]) -> io::Result<Option<Value>> {
        let preset = |choice: &ValueChoice| {
            field.shape.default().and_then(Value::as_array).is_some_and(|values| values.contains(&choice.value))
        };
        loop {
            let items = choices.iter().map(|choice| (choice.title.as_str(), preset(choice)));
            let prompt = format!("{} (space marks, enter ends)", field.label());
            let select = MultiSelect::with_theme(&*self.theme).with_prompt(prompt).items_checked(items);
            let chosen = select.interact_on(&self.term).map_err(io_error)?;
            if chosen.is_empty() && !field.is_required {
                return Ok(None);
            }
            let value = Value::Array(chosen.iter().map(|index| choices[*index].value.clone()).collect());
            match field.check(&value) {
                Ok(()) => return Ok(Some(value)),
                Err(reason) => self.say(&reason)?,
            }
        }
    }

    fn typed(&self, field: &FormField) -> io::Result<Option<Value>> {
        let may_be_empty = !field.is_required;
        let check = |text: &String| match text.is_empty() && may_be_empty {
            true => Ok(()),
            false => field.read(text).map(drop),
        };
        let mut input = Input::<String>::with_theme(&*self.theme).with_prompt(field.label()).allow_empty(may_be_empty);
        if let Some(default) = field.shape.default() {
            input = input.with_initial_text(text_of(default));
        }
        let text = input.validate_with(check).interact_text_on(&self.term).map_err(io_error)?;
        if text.is_empty() && may_be_empty {
            return Ok(None);
        }
        field.read(&text).map(Some).map_err(io::Error::other)
    }
}

fn yes_no(value: bool, title: &str) -> ValueChoice {
    ValueChoice { value: value.into(), title: title.to_owned() }
}

fn io_error(error: dialoguer::Error) -> io::Error {
    let dialoguer::Error::IO(error) = error;
    error
}
