CREATE TABLE search_doc(
  docid BIGSERIAL PRIMARY KEY, id TEXT COLLATE "C" NOT NULL UNIQUE, kind TEXT COLLATE "C" NOT NULL, project_id TEXT COLLATE "C" NOT NULL,
  title TEXT COLLATE "C" NOT NULL, body TEXT COLLATE "C" NOT NULL, terms TEXT COLLATE "C" NOT NULL,
  -- The terms are already words: the index takes them as they are, so both engines find the same documents.
  words TSVECTOR GENERATED ALWAYS AS (array_to_tsvector(string_to_array(terms, ' '))) STORED);
CREATE INDEX search_words ON search_doc USING GIN(words);
