//! A record straight from a row: without a tree of JSON in between, which cost more than the query.

use std::iter::Zip;
use std::slice::Iter;

use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::Error;

use super::table::{ColumnShape, RecordTable, TableColumn};
use super::value::{SqlRow, SqlValue};

/// Reads a record from a row in the order of the table's columns.
pub(super) fn record<R: DeserializeOwned>(table: &RecordTable, row: &SqlRow) -> Result<R, Error> {
    R::deserialize(FieldMap { left: table.columns.iter().zip(&row.0), cell: None })
}

/// The columns of a row as fields.
struct FieldMap<'de> {
    left: Zip<Iter<'de, TableColumn>, Iter<'de, SqlValue>>,
    cell: Option<FieldCell<'de>>,
}

impl<'de> Deserializer<'de> for FieldMap<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct
        seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de> MapAccess<'de> for FieldMap<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((column, value)) = self.left.next() else { return Ok(None) };
        self.cell = Some(FieldCell { value, shape: column.shape });
        seed.deserialize(column.name.into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(self.cell.take().expect("a value is asked for after its name"))
    }
}

/// One column of one row.
struct FieldCell<'de> {
    value: &'de SqlValue,
    shape: ColumnShape,
}

impl<'de> Deserializer<'de> for FieldCell<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match (self.value, self.shape) {
            (SqlValue::Null, _) => visitor.visit_unit(),
            (SqlValue::Int(number), _) => visitor.visit_i64(*number),
            (SqlValue::Real(number), _) => visitor.visit_f64(*number),
            (SqlValue::Text(text), ColumnShape::Plain) => visitor.visit_borrowed_str(text),
            (SqlValue::Text(text), ColumnShape::Json) => {
                let mut json = serde_json::Deserializer::from_str(text);
                let read = json.deserialize_any(visitor)?;
                json.end()?;
                Ok(read)
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            SqlValue::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match (self.value, self.shape) {
            (SqlValue::Text(text), ColumnShape::Plain) => {
                text.as_str().into_deserializer().deserialize_enum(name, variants, visitor)
            }
            (SqlValue::Text(text), ColumnShape::Json) => {
                serde_json::Deserializer::from_str(text).deserialize_enum(name, variants, visitor)
            }
            _ => self.deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf unit unit_struct
        seq tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::project::Project;
    use crate::store::table::TableRecord;

    #[test]
    fn a_record_comes_back_from_its_own_row_and_a_bad_row_is_refused() {
        let table = Project::TABLE;
        let text = r#"{"id":"prj_1","key":"WEB","name":"a \"b\"","description":"","status":"active","policy":{"resume_grace_s":7},
            "next_number":3,"version":1,"created_at":5,"updated_at":6,"archived_at":null}"#;
        let project: Project = serde_json::from_str(text).unwrap();
        let mut row = SqlRow(table.values(&project.to_fields().unwrap()));
        assert_eq!(record::<Project>(&table, &row).unwrap(), project);
        row.0[4] = SqlValue::Text("asleep".to_owned());
        assert!(record::<Project>(&table, &row).is_err());
        row.0[4] = SqlValue::Text("active".to_owned());
        row.0[5] = SqlValue::Text("{} and more".to_owned());
        assert!(record::<Project>(&table, &row).is_err());
    }
}
