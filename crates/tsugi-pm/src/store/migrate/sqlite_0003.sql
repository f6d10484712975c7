CREATE TRIGGER handoff_pending_once BEFORE UPDATE OF status ON handoff
  WHEN OLD.status <> 'pending' AND NEW.status = 'pending'
  BEGIN SELECT RAISE(ABORT, 'I5: a handoff leaves pending once'); END;
CREATE TRIGGER task_fence_grows BEFORE UPDATE OF fence ON task
  WHEN NEW.fence < OLD.fence
  BEGIN SELECT RAISE(ABORT, 'I3: a fence only grows'); END;
CREATE TRIGGER dependency_in_project BEFORE INSERT ON dependency
  WHEN EXISTS (SELECT 1 FROM task WHERE id IN (NEW.task_id, NEW.depends_on_id) AND project_id <> NEW.project_id)
  BEGIN SELECT RAISE(ABORT, 'I7: a dependency stays in one project'); END;
