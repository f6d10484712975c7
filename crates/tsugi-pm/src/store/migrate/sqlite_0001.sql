CREATE TABLE agent(
  id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, type TEXT NOT NULL CHECK(type IN('human','ai')),
  role_title TEXT NOT NULL, capabilities TEXT NOT NULL, instructions TEXT NOT NULL,
  status TEXT NOT NULL CHECK(status IN('active','inactive','archived')),
  version INTEGER NOT NULL, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL) STRICT;

CREATE TABLE project(
  id TEXT PRIMARY KEY, key TEXT NOT NULL UNIQUE, name TEXT NOT NULL, description TEXT NOT NULL,
  status TEXT NOT NULL CHECK(status IN('active','paused','archived')), policy TEXT NOT NULL,
  next_number INTEGER NOT NULL CHECK(next_number >= 1), version INTEGER NOT NULL,
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, archived_at INTEGER) STRICT;

CREATE TABLE membership(
  project_id TEXT NOT NULL REFERENCES project(id), agent_id TEXT NOT NULL REFERENCES agent(id),
  role TEXT NOT NULL CHECK(role IN('owner','manager','worker','viewer')), version INTEGER NOT NULL,
  PRIMARY KEY(project_id, agent_id)) STRICT;
CREATE INDEX membership_agent ON membership(agent_id, project_id);

CREATE TABLE session(
  id TEXT PRIMARY KEY, agent_id TEXT NOT NULL REFERENCES agent(id), project_id TEXT REFERENCES project(id),
  state TEXT NOT NULL CHECK(state IN('active','disconnected','ended','expired')),
  era TEXT NOT NULL CHECK(era IN('legacy','modern')), client_name TEXT, client_version TEXT, client_note TEXT,
  host TEXT, pid INTEGER, process_nonce TEXT, started_at INTEGER NOT NULL, last_activity_at INTEGER NOT NULL,
  heartbeat_at INTEGER, disconnected_at INTEGER, ended_at INTEGER,
  end_kind TEXT CHECK(end_kind IN('tool','eof','signal','expired','admin','resumed')),
  summary TEXT, resumes TEXT REFERENCES session(id), end_result TEXT, version INTEGER NOT NULL) STRICT;
CREATE INDEX session_open ON session(agent_id) WHERE state IN('active','disconnected');
CREATE INDEX session_process ON session(process_nonce) WHERE state = 'active' AND process_nonce IS NOT NULL;
CREATE INDEX session_active ON session(last_activity_at) WHERE state = 'active';
CREATE INDEX session_gone ON session(disconnected_at) WHERE state = 'disconnected';

CREATE TABLE task(
  id TEXT PRIMARY KEY, project_id TEXT NOT NULL REFERENCES project(id), number INTEGER NOT NULL,
  reference TEXT NOT NULL UNIQUE, title TEXT NOT NULL, title_key TEXT NOT NULL, description TEXT NOT NULL,
  acceptance TEXT NOT NULL,
  status TEXT NOT NULL CHECK(status IN('backlog','todo','in_progress','blocked','review','done','cancelled')),
  priority TEXT NOT NULL CHECK(priority IN('critical','high','medium','low')),
  priority_rank INTEGER NOT NULL GENERATED ALWAYS AS
    (CASE priority WHEN 'critical' THEN 0 WHEN 'high' THEN 1 WHEN 'medium' THEN 2 ELSE 3 END) STORED,
  assignee_id TEXT REFERENCES agent(id), parent_id TEXT REFERENCES task(id), labels TEXT NOT NULL,
  required_capabilities TEXT NOT NULL, due_at INTEGER, estimate_min INTEGER,
  created_by TEXT REFERENCES agent(id), discovered_from TEXT REFERENCES task(id), blocked_reason TEXT,
  result TEXT, review TEXT, fence INTEGER NOT NULL CHECK(fence >= 0),
  open_blockers INTEGER NOT NULL CHECK(open_blockers >= 0), unblocks INTEGER NOT NULL CHECK(unblocks >= 0),
  external TEXT NOT NULL, version INTEGER NOT NULL, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,
  started_at INTEGER, completed_at INTEGER,
  UNIQUE(project_id, number)) STRICT;
CREATE INDEX task_ready ON task(project_id, priority_rank, unblocks DESC, created_at, id)
  WHERE status = 'todo' AND open_blockers = 0 AND assignee_id IS NULL;
CREATE INDEX task_ready_mine ON task(assignee_id, project_id, priority_rank, unblocks DESC, created_at, id)
  WHERE status = 'todo' AND open_blockers = 0;
CREATE INDEX task_waiting ON task(project_id) WHERE status = 'todo' AND open_blockers > 0;
CREATE INDEX task_blocker ON task(project_id, unblocks DESC) WHERE unblocks > 0 AND status NOT IN('done','cancelled');
CREATE INDEX task_twin ON task(project_id, title_key, number) WHERE status NOT IN('done','cancelled');
CREATE INDEX task_status ON task(project_id, status, updated_at);
CREATE INDEX task_updated ON task(project_id, updated_at, id);
CREATE INDEX task_created ON task(project_id, created_at, id);
CREATE INDEX task_assignee ON task(assignee_id, updated_at) WHERE assignee_id IS NOT NULL;
CREATE INDEX task_author ON task(created_by, updated_at);
CREATE INDEX task_parent ON task(parent_id) WHERE parent_id IS NOT NULL;

CREATE TABLE dependency(
  project_id TEXT NOT NULL REFERENCES project(id), task_id TEXT NOT NULL REFERENCES task(id),
  depends_on_id TEXT NOT NULL REFERENCES task(id), kind TEXT NOT NULL CHECK(kind IN('blocks','related')),
  created_by TEXT, created_at INTEGER NOT NULL, version INTEGER NOT NULL,
  PRIMARY KEY(task_id, depends_on_id), CHECK(task_id <> depends_on_id)) STRICT;
CREATE INDEX dependency_reverse ON dependency(depends_on_id, task_id);

CREATE TABLE claim(
  id TEXT PRIMARY KEY, task_id TEXT NOT NULL REFERENCES task(id), project_id TEXT NOT NULL REFERENCES project(id),
  session_id TEXT NOT NULL REFERENCES session(id), agent_id TEXT NOT NULL REFERENCES agent(id),
  fence INTEGER NOT NULL,
  state TEXT NOT NULL CHECK(state IN('live','completed','released','expired','transferred','revoked')),
  ttl_s INTEGER NOT NULL, acquired_at INTEGER NOT NULL, renewed_at INTEGER NOT NULL, expires_at INTEGER NOT NULL,
  deadline_at INTEGER NOT NULL, checkpoint TEXT, git TEXT, end_reason TEXT, ended_at INTEGER,
  version INTEGER NOT NULL, CHECK(expires_at <= deadline_at), CHECK((state = 'live') = (ended_at IS NULL))) STRICT;
CREATE UNIQUE INDEX claim_one_live ON claim(task_id) WHERE state = 'live';
CREATE UNIQUE INDEX claim_fence ON claim(task_id, fence);
CREATE INDEX claim_expiry ON claim(expires_at) WHERE state = 'live';
CREATE INDEX claim_session ON claim(session_id) WHERE state = 'live';
CREATE INDEX claim_agent ON claim(agent_id) WHERE state = 'live';

CREATE TABLE context(
  id TEXT PRIMARY KEY, project_id TEXT NOT NULL REFERENCES project(id), task_id TEXT REFERENCES task(id),
  agent_id TEXT NOT NULL REFERENCES agent(id), session_id TEXT REFERENCES session(id),
  type TEXT NOT NULL CHECK(type IN('note','decision','assumption','blocker','reference','artifact')),
  content TEXT NOT NULL, uri TEXT, supersedes TEXT REFERENCES context(id),
  state TEXT NOT NULL CHECK(state IN('active','superseded','retracted')), created_at INTEGER NOT NULL,
  version INTEGER NOT NULL) STRICT;
CREATE INDEX context_task ON context(task_id, created_at) WHERE task_id IS NOT NULL;
CREATE INDEX context_project ON context(project_id, created_at) WHERE task_id IS NULL;

CREATE TABLE handoff(
  id TEXT PRIMARY KEY, task_id TEXT NOT NULL REFERENCES task(id), project_id TEXT NOT NULL REFERENCES project(id),
  from_agent_id TEXT NOT NULL REFERENCES agent(id), from_session_id TEXT REFERENCES session(id),
  to_agent_id TEXT REFERENCES agent(id), kind TEXT NOT NULL CHECK(kind IN('manual','auto')), summary TEXT NOT NULL,
  next_steps TEXT NOT NULL, warnings TEXT NOT NULL, done TEXT NOT NULL, uncertain TEXT NOT NULL, git TEXT,
  status TEXT NOT NULL CHECK(status IN('pending','accepted','rejected','withdrawn','expired','completed')),
  accepted_by TEXT REFERENCES agent(id), accepted_session_id TEXT REFERENCES session(id), accepted_at INTEGER,
  reason TEXT, expires_at INTEGER NOT NULL, created_at INTEGER NOT NULL, version INTEGER NOT NULL) STRICT;
CREATE UNIQUE INDEX handoff_one_pending ON handoff(task_id) WHERE status = 'pending';
CREATE INDEX handoff_task ON handoff(task_id, created_at);
CREATE INDEX handoff_to ON handoff(to_agent_id, created_at) WHERE status = 'pending';
CREATE INDEX handoff_open ON handoff(project_id, created_at) WHERE status = 'pending';
CREATE INDEX handoff_from ON handoff(from_agent_id, created_at) WHERE status = 'pending';
CREATE INDEX handoff_expiry ON handoff(expires_at) WHERE status = 'pending';

CREATE TABLE token(
  id TEXT PRIMARY KEY, agent_id TEXT NOT NULL REFERENCES agent(id), hash TEXT NOT NULL UNIQUE, scopes TEXT NOT NULL,
  created_at INTEGER NOT NULL, expires_at INTEGER, revoked_at INTEGER, version INTEGER NOT NULL) STRICT;

CREATE TABLE event(
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, at INTEGER NOT NULL, project_id TEXT,
  entity_type TEXT NOT NULL, entity_id TEXT NOT NULL, type TEXT NOT NULL, actor_agent_id TEXT, session_id TEXT,
  claim_id TEXT, reason TEXT, changes TEXT NOT NULL, version_after INTEGER NOT NULL, prev_hash TEXT NOT NULL,
  hash TEXT NOT NULL) STRICT;
CREATE INDEX event_entity ON event(entity_id, seq);
CREATE INDEX event_project ON event(project_id, seq);
CREATE TRIGGER event_no_update BEFORE UPDATE ON event BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TRIGGER event_no_delete BEFORE DELETE ON event BEGIN SELECT RAISE(ABORT, 'append-only'); END;

CREATE TABLE notice(
  id INTEGER PRIMARY KEY AUTOINCREMENT, agent_id TEXT NOT NULL REFERENCES agent(id), kind TEXT NOT NULL,
  reference TEXT NOT NULL, text TEXT NOT NULL, shown INTEGER NOT NULL, created_at INTEGER NOT NULL) STRICT;
CREATE INDEX notice_agent ON notice(agent_id, id);
CREATE INDEX notice_fresh ON notice(agent_id, id) WHERE shown < 2;

CREATE TABLE idempotency(
  agent_id TEXT NOT NULL, tool TEXT NOT NULL, key TEXT NOT NULL, args_hash TEXT NOT NULL, result TEXT NOT NULL,
  created_at INTEGER NOT NULL, PRIMARY KEY(agent_id, tool, key)) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_age ON idempotency(created_at);
