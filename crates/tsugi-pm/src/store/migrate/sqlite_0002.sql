CREATE TABLE search_doc(
  docid INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, project_id TEXT NOT NULL,
  title TEXT NOT NULL, body TEXT NOT NULL, terms TEXT NOT NULL) STRICT;
CREATE VIRTUAL TABLE search_index USING fts5(terms, content='search_doc', content_rowid='docid', tokenize='ascii');
CREATE TRIGGER search_added AFTER INSERT ON search_doc BEGIN
  INSERT INTO search_index(rowid, terms) VALUES (new.docid, new.terms); END;
CREATE TRIGGER search_removed AFTER DELETE ON search_doc BEGIN
  INSERT INTO search_index(search_index, rowid, terms) VALUES ('delete', old.docid, old.terms); END;
CREATE TRIGGER search_changed AFTER UPDATE ON search_doc BEGIN
  INSERT INTO search_index(search_index, rowid, terms) VALUES ('delete', old.docid, old.terms);
  INSERT INTO search_index(rowid, terms) VALUES (new.docid, new.terms); END;
