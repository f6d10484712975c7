//! Finding tasks, contexts and handoffs by their words, with the same hits in both engines.

use super::Tx;
use super::event::one_of;
use crate::domain::fault::PmFault;
use crate::domain::id::ProjectId;
use crate::domain::limit;
use crate::store::dialect::SqlDialect;
use crate::store::terms::{query_terms, terms};
use crate::store::value::SqlValue;

/// What to look for, and where.
#[derive(Clone, Debug)]
pub(crate) struct SearchFilter {
    pub(crate) query: String,
    pub(crate) projects: Vec<ProjectId>,
    pub(crate) kinds: Vec<&'static str>,
    pub(crate) limit: i64,
}

/// Something that was found.
#[derive(Clone, Debug)]
pub(crate) struct SearchHit {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) title: String,
    pub(crate) body: String,
    pub(crate) score: f64,
}

impl Tx<'_> {
    /// Makes a text findable, replacing what was known under this id.
    pub(crate) fn search_put(
        &mut self,
        id: &str,
        kind: &str,
        project: &ProjectId,
        title: &str,
        body: &str,
    ) -> Result<(), PmFault> {
        let sql = "INSERT INTO search_doc (id, kind, project_id, title, body, terms) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
                   ON CONFLICT (id) DO UPDATE SET title = excluded.title, body = excluded.body, terms = excluded.terms";
        let terms = terms(&format!("{title} {body}"));
        let (body, _) = limit::clip(body, limit::KIB);
        let values = vec![id.into(), kind.into(), project.as_str().into(), title.into(), body.into(), terms.into()];
        self.run_later(sql, values)
    }

    /// The condition on `search_doc d` that a query's words are all there, or nothing when it has no words.
    pub(super) fn search_condition(&self, query: &str, values: &mut Vec<SqlValue>) -> Option<String> {
        let terms = query_terms(query);
        let (last, rest) = terms.split_last()?;
        let dialect = self.dialect();
        let mark = match dialect {
            SqlDialect::Sqlite => "*",
            SqlDialect::Postgres => ":*",
        };
        let glue = if dialect == SqlDialect::Sqlite { " AND " } else { " & " };
        // The last word may be unfinished, so it matches what begins with it.
        let words: Vec<String> = rest.iter().cloned().chain([format!("{last}{mark}")]).collect();
        values.push(words.join(glue).into());
        let at = values.len();
        Some(match dialect {
            SqlDialect::Sqlite => format!("d.docid IN (SELECT rowid FROM search_index WHERE search_index MATCH ?{at})"),
            SqlDialect::Postgres => format!("d.words @@ CAST(CAST(?{at} AS text) AS tsquery)"),
        })
    }

    /// What matches, best first.
    pub(crate) fn search_list(&mut self, filter: &SearchFilter) -> Result<Vec<SearchHit>, PmFault> {
        let mut values = Vec::new();
        let Some(condition) = self.search_condition(&filter.query, &mut values) else { return Ok(Vec::new()) };
        let projects = one_of("d.project_id", filter.projects.iter().map(ProjectId::as_str), &mut values);
        let kinds = one_of("d.kind", filter.kinds.iter().copied(), &mut values);
        values.push(filter.limit.into());
        let at = values.len();
        let sql = match self.dialect() {
            SqlDialect::Sqlite => format!(
                "SELECT d.id, d.kind, d.title, d.body, -bm25(search_index) AS score FROM search_index \
                 JOIN search_doc d ON d.docid = search_index.rowid WHERE search_index MATCH ?1{projects}{kinds} \
                 ORDER BY score DESC, d.id LIMIT ?{at}"
            ),
            SqlDialect::Postgres => format!(
                "SELECT d.id, d.kind, d.title, d.body, \
                 CAST(ts_rank(d.words, CAST(CAST(?1 AS text) AS tsquery)) AS double precision) AS score FROM search_doc d \
                 WHERE {condition}{projects}{kinds} ORDER BY score DESC, d.id LIMIT ?{at}"
            ),
        };
        let rows = self.rows(&sql, &values)?;
        rows.iter()
            .map(|row| {
                let text = |at: usize| row.text(at).map(str::to_owned);
                Ok(SearchHit { id: text(0)?, kind: text(1)?, title: text(2)?, body: text(3)?, score: row.real(4)? })
            })
            .collect()
    }
}
