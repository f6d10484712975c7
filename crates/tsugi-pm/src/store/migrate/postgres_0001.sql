CREATE TABLE agent(
  id TEXT COLLATE "C" PRIMARY KEY, name TEXT COLLATE "C" NOT NULL UNIQUE, type TEXT COLLATE "C" NOT NULL CHECK(type IN('human','ai')),
  role_title TEXT COLLATE "C" NOT NULL, capabilities TEXT COLLATE "C" NOT NULL, instructions TEXT COLLATE "C" NOT NULL,
  status TEXT COLLATE "C" NOT NULL CHECK(status IN('active','inactive','archived')),
  version BIGINT NOT NULL, created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL);

CREATE TABLE project(
  id TEXT COLLATE "C" PRIMARY KEY, key TEXT COLLATE "C" NOT NULL UNIQUE, name TEXT COLLATE "C" NOT NULL, description TEXT COLLATE "C" NOT NULL,
  status TEXT COLLATE "C" NOT NULL CHECK(status IN('active','paused','archived')), policy TEXT COLLATE "C" NOT NULL,
  next_number BIGINT NOT NULL CHECK(next_number >= 1), version BIGINT NOT NULL,
  created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL, archived_at BIGINT);

CREATE TABLE membership(
  project_id TEXT COLLATE "C" NOT NULL REFERENCES project(id) DEFERRABLE, agent_id TEXT COLLATE "C" NOT NULL REFERENCES agent(id) DEFERRABLE,
  role TEXT COLLATE "C" NOT NULL CHECK(role IN('owner','manager','worker','viewer')), version BIGINT NOT NULL,
  PRIMARY KEY(project_id, agent_id));
CREATE INDEX membership_agent ON membership(agent_id, project_id);

CREATE TABLE session(
  id TEXT COLLATE "C" PRIMARY KEY, agent_id TEXT COLLATE "C" NOT NULL REFERENCES agent(id) DEFERRABLE, project_id TEXT COLLATE "C" REFERENCES project(id) DEFERRABLE,
  state TEXT COLLATE "C" NOT NULL CHECK(state IN('active','disconnected','ended','expired')),
  era TEXT COLLATE "C" NOT NULL CHECK(era IN('legacy','modern')), client_name TEXT COLLATE "C", client_version TEXT COLLATE "C", client_note TEXT COLLATE "C",
  host TEXT COLLATE "C", pid BIGINT, process_nonce TEXT COLLATE "C", started_at BIGINT NOT NULL, last_activity_at BIGINT NOT NULL,
  heartbeat_at BIGINT, disconnected_at BIGINT, ended_at BIGINT,
  end_kind TEXT COLLATE "C" CHECK(end_kind IN('tool','eof','signal','expired','admin','resumed')),
  summary TEXT COLLATE "C", resumes TEXT COLLATE "C" REFERENCES session(id) DEFERRABLE, end_result TEXT COLLATE "C", version BIGINT NOT NULL);
CREATE INDEX session_open ON session(agent_id) WHERE state IN('active','disconnected');
CREATE INDEX session_process ON session(process_nonce) WHERE state = 'active' AND process_nonce IS NOT NULL;
CREATE INDEX session_active ON session(last_activity_at) WHERE state = 'active';
CREATE INDEX session_gone ON session(disconnected_at) WHERE state = 'disconnected';

CREATE TABLE task(
  id TEXT COLLATE "C" PRIMARY KEY, project_id TEXT COLLATE "C" NOT NULL REFERENCES project(id) DEFERRABLE, number BIGINT NOT NULL,
  reference TEXT COLLATE "C" NOT NULL UNIQUE, title TEXT COLLATE "C" NOT NULL, title_key TEXT COLLATE "C" NOT NULL, description TEXT COLLATE "C" NOT NULL,
  acceptance TEXT COLLATE "C" NOT NULL,
  status TEXT COLLATE "C" NOT NULL CHECK(status IN('backlog','todo','in_progress','blocked','review','done','cancelled')),
  priority TEXT COLLATE "C" NOT NULL CHECK(priority IN('critical','high','medium','low')),
  priority_rank BIGINT NOT NULL GENERATED ALWAYS AS
    (CASE priority WHEN 'critical' THEN 0 WHEN 'high' THEN 1 WHEN 'medium' THEN 2 ELSE 3 END) STORED,
  assignee_id TEXT COLLATE "C" REFERENCES agent(id) DEFERRABLE, parent_id TEXT COLLATE "C" REFERENCES task(id) DEFERRABLE, labels TEXT COLLATE "C" NOT NULL,
  required_capabilities TEXT COLLATE "C" NOT NULL, due_at BIGINT, estimate_min BIGINT,
  created_by TEXT COLLATE "C" REFERENCES agent(id) DEFERRABLE, discovered_from TEXT COLLATE "C" REFERENCES task(id) DEFERRABLE, blocked_reason TEXT COLLATE "C",
  result TEXT COLLATE "C", review TEXT COLLATE "C", fence BIGINT NOT NULL CHECK(fence >= 0),
  open_blockers BIGINT NOT NULL CHECK(open_blockers >= 0), unblocks BIGINT NOT NULL CHECK(unblocks >= 0),
  external TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL,
  started_at BIGINT, completed_at BIGINT,
  UNIQUE(project_id, number));
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
  project_id TEXT COLLATE "C" NOT NULL REFERENCES project(id) DEFERRABLE, task_id TEXT COLLATE "C" NOT NULL REFERENCES task(id) DEFERRABLE,
  depends_on_id TEXT COLLATE "C" NOT NULL REFERENCES task(id) DEFERRABLE, kind TEXT COLLATE "C" NOT NULL CHECK(kind IN('blocks','related')),
  created_by TEXT COLLATE "C", created_at BIGINT NOT NULL, version BIGINT NOT NULL,
  PRIMARY KEY(task_id, depends_on_id), CHECK(task_id <> depends_on_id));
CREATE INDEX dependency_reverse ON dependency(depends_on_id, task_id);

CREATE TABLE claim(
  id TEXT COLLATE "C" PRIMARY KEY, task_id TEXT COLLATE "C" NOT NULL REFERENCES task(id) DEFERRABLE, project_id TEXT COLLATE "C" NOT NULL REFERENCES project(id) DEFERRABLE,
  session_id TEXT COLLATE "C" NOT NULL REFERENCES session(id) DEFERRABLE, agent_id TEXT COLLATE "C" NOT NULL REFERENCES agent(id) DEFERRABLE,
  fence BIGINT NOT NULL,
  state TEXT COLLATE "C" NOT NULL CHECK(state IN('live','completed','released','expired','transferred','revoked')),
  ttl_s BIGINT NOT NULL, acquired_at BIGINT NOT NULL, renewed_at BIGINT NOT NULL, expires_at BIGINT NOT NULL,
  deadline_at BIGINT NOT NULL, checkpoint TEXT COLLATE "C", git TEXT COLLATE "C", end_reason TEXT COLLATE "C", ended_at BIGINT,
  version BIGINT NOT NULL, CHECK(expires_at <= deadline_at), CHECK((state = 'live') = (ended_at IS NULL)));
CREATE UNIQUE INDEX claim_one_live ON claim(task_id) WHERE state = 'live';
CREATE UNIQUE INDEX claim_fence ON claim(task_id, fence);
CREATE INDEX claim_expiry ON claim(expires_at) WHERE state = 'live';
CREATE INDEX claim_session ON claim(session_id) WHERE state = 'live';
CREATE INDEX claim_agent ON claim(agent_id) WHERE state = 'live';

CREATE TABLE context(
  id TEXT COLLATE "C" PRIMARY KEY, project_id TEXT COLLATE "C" NOT NULL REFERENCES project(id) DEFERRABLE, task_id TEXT COLLATE "C" REFERENCES task(id) DEFERRABLE,
  agent_id TEXT COLLATE "C" NOT NULL REFERENCES agent(id) DEFERRABLE, session_id TEXT COLLATE "C" REFERENCES session(id) DEFERRABLE,
  type TEXT COLLATE "C" NOT NULL CHECK(type IN('note','decision','assumption','blocker','reference','artifact')),
  content TEXT COLLATE "C" NOT NULL, uri TEXT COLLATE "C", supersedes TEXT COLLATE "C" REFERENCES context(id) DEFERRABLE,
  state TEXT COLLATE "C" NOT NULL CHECK(state IN('active','superseded','retracted')), created_at BIGINT NOT NULL,
  version BIGINT NOT NULL);
CREATE INDEX context_task ON context(task_id, created_at) WHERE task_id IS NOT NULL;
CREATE INDEX context_project ON context(project_id, created_at) WHERE task_id IS NULL;

CREATE TABLE handoff(
  id TEXT COLLATE "C" PRIMARY KEY, task_id TEXT COLLATE "C" NOT NULL REFERENCES task(id) DEFERRABLE, project_id TEXT COLLATE "C" NOT NULL REFERENCES project(id) DEFERRABLE,
  from_agent_id TEXT COLLATE "C" NOT NULL REFERENCES agent(id) DEFERRABLE, from_session_id TEXT COLLATE "C" REFERENCES session(id) DEFERRABLE,
  to_agent_id TEXT COLLATE "C" REFERENCES agent(id) DEFERRABLE, kind TEXT COLLATE "C" NOT NULL CHECK(kind IN('manual','auto')), summary TEXT COLLATE "C" NOT NULL,
  next_steps TEXT COLLATE "C" NOT NULL, warnings TEXT COLLATE "C" NOT NULL, done TEXT COLLATE "C" NOT NULL, uncertain TEXT COLLATE "C" NOT NULL, git TEXT COLLATE "C",
  status TEXT COLLATE "C" NOT NULL CHECK(status IN('pending','accepted','rejected','withdrawn','expired','completed')),
  accepted_by TEXT COLLATE "C" REFERENCES agent(id) DEFERRABLE, accepted_session_id TEXT COLLATE "C" REFERENCES session(id) DEFERRABLE, accepted_at BIGINT,
  reason TEXT COLLATE "C", expires_at BIGINT NOT NULL, created_at BIGINT NOT NULL, version BIGINT NOT NULL);
CREATE UNIQUE INDEX handoff_one_pending ON handoff(task_id) WHERE status = 'pending';
CREATE INDEX handoff_task ON handoff(task_id, created_at);
CREATE INDEX handoff_to ON handoff(to_agent_id, created_at) WHERE status = 'pending';
CREATE INDEX handoff_open ON handoff(project_id, created_at) WHERE status = 'pending';
CREATE INDEX handoff_from ON handoff(from_agent_id, created_at) WHERE status = 'pending';
CREATE INDEX handoff_expiry ON handoff(expires_at) WHERE status = 'pending';

CREATE TABLE token(
  id TEXT COLLATE "C" PRIMARY KEY, agent_id TEXT COLLATE "C" NOT NULL REFERENCES agent(id) DEFERRABLE, hash TEXT COLLATE "C" NOT NULL UNIQUE, scopes TEXT COLLATE "C" NOT NULL,
  created_at BIGINT NOT NULL, expires_at BIGINT, revoked_at BIGINT, version BIGINT NOT NULL);

CREATE TABLE event(
  seq BIGSERIAL PRIMARY KEY, id TEXT COLLATE "C" NOT NULL UNIQUE, at BIGINT NOT NULL, project_id TEXT COLLATE "C",
  entity_type TEXT COLLATE "C" NOT NULL, entity_id TEXT COLLATE "C" NOT NULL, type TEXT COLLATE "C" NOT NULL, actor_agent_id TEXT COLLATE "C", session_id TEXT COLLATE "C",
  claim_id TEXT COLLATE "C", reason TEXT COLLATE "C", changes TEXT COLLATE "C" NOT NULL, version_after BIGINT NOT NULL, prev_hash TEXT COLLATE "C" NOT NULL,
  hash TEXT COLLATE "C" NOT NULL);
CREATE INDEX event_entity ON event(entity_id, seq);
CREATE INDEX event_project ON event(project_id, seq);
CREATE FUNCTION event_append_only() RETURNS trigger LANGUAGE plpgsql AS $body$ BEGIN RAISE EXCEPTION 'append-only'; END $body$;
CREATE TRIGGER event_no_change BEFORE UPDATE OR DELETE ON event FOR EACH ROW EXECUTE FUNCTION event_append_only();
CREATE TRIGGER event_no_truncate BEFORE TRUNCATE ON event FOR EACH STATEMENT EXECUTE FUNCTION event_append_only();
REVOKE UPDATE, DELETE, TRUNCATE ON event FROM PUBLIC;

CREATE TABLE notice(
  id BIGSERIAL PRIMARY KEY, agent_id TEXT COLLATE "C" NOT NULL REFERENCES agent(id) DEFERRABLE, kind TEXT COLLATE "C" NOT NULL,
  reference TEXT COLLATE "C" NOT NULL, text TEXT COLLATE "C" NOT NULL, shown BIGINT NOT NULL, created_at BIGINT NOT NULL);
CREATE INDEX notice_agent ON notice(agent_id, id);
CREATE INDEX notice_fresh ON notice(agent_id, id) WHERE shown < 2;

CREATE TABLE idempotency(
  agent_id TEXT COLLATE "C" NOT NULL, tool TEXT COLLATE "C" NOT NULL, key TEXT COLLATE "C" NOT NULL, args_hash TEXT COLLATE "C" NOT NULL, result TEXT COLLATE "C" NOT NULL,
  created_at BIGINT NOT NULL, PRIMARY KEY(agent_id, tool, key));
CREATE INDEX idempotency_age ON idempotency(created_at);
