//! Names by their beginning, straight from the indexes that keep them unique.

use super::Tx;
use crate::domain::fault::PmFault;

/// Where names are kept: the table, the column of the name, and the column that says whose it is.
pub(crate) type NameIndex = (&'static str, &'static str, &'static str);

impl Tx<'_> {
    /// The names that begin with `prefix`, in order, each with whose it is.
    pub(crate) fn name_list(
        &mut self,
        names: NameIndex,
        prefix: &str,
        limit: i64,
    ) -> Result<Vec<(String, String)>, PmFault> {
        let (table, name, owner) = names;
        let sql =
            format!("SELECT {name}, {owner} FROM {table} WHERE {name} >= ?1 AND {name} < ?2 ORDER BY {name} LIMIT ?3");
        // Names are letters, digits, `_` and `-`, all of which come before this sign.
        let end = format!("{prefix}~");
        let rows = self.rows(&sql, &[prefix.into(), end.into(), limit.into()])?;
        rows.iter().map(|row| Ok((row.text(0)?.to_owned(), row.text(1)?.to_owned()))).collect()
    }
}
