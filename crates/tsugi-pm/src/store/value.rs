//! Values and rows in the small vocabulary that both engines share: numbers, texts and nothing.

use serde_json::Value as Json;

use crate::domain::fault::PmFault;

/// One value of one column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SqlValue {
    Null,
    Int(i64),
    Real(f64),
    Text(String),
}

impl From<i64> for SqlValue {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<&str> for SqlValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for SqlValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<T: Into<SqlValue>> From<Option<T>> for SqlValue {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl From<crate::domain::time::Moment> for SqlValue {
    fn from(moment: crate::domain::time::Moment) -> Self {
        Self::Int(moment.0)
    }
}

/// One row, by position.
#[derive(Clone, Debug)]
pub(crate) struct SqlRow(pub(crate) Vec<SqlValue>);

impl SqlRow {
    pub(crate) fn text(&self, at: usize) -> Result<&str, PmFault> {
        match self.0.get(at) {
            Some(SqlValue::Text(text)) => Ok(text),
            other => Err(wrong("a text", at, other)),
        }
    }

    pub(crate) fn int(&self, at: usize) -> Result<i64, PmFault> {
        match self.0.get(at) {
            Some(SqlValue::Int(number)) => Ok(*number),
            other => Err(wrong("a number", at, other)),
        }
    }

    pub(crate) fn real(&self, at: usize) -> Result<f64, PmFault> {
        match self.0.get(at) {
            Some(SqlValue::Real(number)) => Ok(*number),
            other => Err(wrong("a real number", at, other)),
        }
    }

    pub(crate) fn json(&self, at: usize) -> Result<Json, PmFault> {
        serde_json::from_str(self.text(at)?)
            .map_err(|error| PmFault::internal(format!("column {at} is not JSON: {error}")))
    }
}

fn wrong(wanted: &str, at: usize, found: Option<&SqlValue>) -> PmFault {
    PmFault::internal(format!("column {at} should be {wanted}, found {found:?}"))
}
