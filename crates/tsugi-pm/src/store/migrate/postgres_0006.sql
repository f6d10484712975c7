-- SQLite needs these; here the database's own clock counts. They are kept so that both schemas have the same tables.
CREATE TABLE machine_clock(boot TEXT PRIMARY KEY, base_ms BIGINT NOT NULL, adjusted_ms BIGINT NOT NULL);
CREATE TABLE clock_lead(
  host TEXT NOT NULL, pid BIGINT NOT NULL, ahead_ms BIGINT NOT NULL, seen_at BIGINT NOT NULL,
  PRIMARY KEY(host, pid));
