CREATE TRIGGER archived_project BEFORE UPDATE ON project
  WHEN OLD.status = 'archived' AND NEW.status = 'archived'
  BEGIN SELECT RAISE(ABORT, 'I15: an archived project stays as it is'); END;
CREATE TRIGGER archived_at_rest BEFORE UPDATE OF status ON project
  WHEN NEW.status = 'archived' AND (EXISTS (SELECT 1 FROM claim WHERE project_id = NEW.id AND state = 'live')
    OR EXISTS (SELECT 1 FROM handoff WHERE project_id = NEW.id AND status = 'pending'))
  BEGIN SELECT RAISE(ABORT, 'I15: a project is archived when nothing in it is held or handed over'); END;
CREATE TRIGGER archived_task BEFORE UPDATE ON task
  WHEN (SELECT status FROM project WHERE id = NEW.project_id) = 'archived'
  BEGIN SELECT RAISE(ABORT, 'I15: an archived project stays as it is'); END;
CREATE TRIGGER archived_claim BEFORE UPDATE ON claim
  WHEN (SELECT status FROM project WHERE id = NEW.project_id) = 'archived'
  BEGIN SELECT RAISE(ABORT, 'I15: an archived project stays as it is'); END;
CREATE TRIGGER archived_hold BEFORE INSERT ON claim
  WHEN NEW.state = 'live' AND (SELECT status FROM project WHERE id = NEW.project_id) = 'archived'
  BEGIN SELECT RAISE(ABORT, 'I15: nothing is held in an archived project'); END;
CREATE TRIGGER archived_handoff BEFORE UPDATE ON handoff
  WHEN (SELECT status FROM project WHERE id = NEW.project_id) = 'archived'
  BEGIN SELECT RAISE(ABORT, 'I15: an archived project stays as it is'); END;
CREATE TRIGGER archived_context BEFORE UPDATE ON context
  WHEN (SELECT status FROM project WHERE id = NEW.project_id) = 'archived'
  BEGIN SELECT RAISE(ABORT, 'I15: an archived project stays as it is'); END;
