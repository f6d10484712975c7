-- Only tasks that are somebody's: most are nobody's when they are made, and then one page fewer is written.
DROP INDEX task_ready_mine;
CREATE INDEX task_ready_mine ON task(assignee_id, project_id, priority_rank, unblocks DESC, created_at, id)
  WHERE status = 'todo' AND open_blockers = 0 AND assignee_id IS NOT NULL;
