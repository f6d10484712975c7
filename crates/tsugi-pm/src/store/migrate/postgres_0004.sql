CREATE FUNCTION archived_stays() RETURNS trigger LANGUAGE plpgsql AS $body$ BEGIN
  IF (SELECT status FROM project WHERE id = NEW.project_id) = 'archived' THEN
    RAISE EXCEPTION 'I15: an archived project stays as it is';
  END IF;
  RETURN NEW;
END $body$;
CREATE FUNCTION archived_at_rest() RETURNS trigger LANGUAGE plpgsql AS $body$ BEGIN
  IF EXISTS (SELECT 1 FROM claim WHERE project_id = NEW.id AND state = 'live')
    OR EXISTS (SELECT 1 FROM handoff WHERE project_id = NEW.id AND status = 'pending') THEN
    RAISE EXCEPTION 'I15: a project is archived when nothing in it is held or handed over';
  END IF;
  RETURN NEW;
END $body$;
CREATE TRIGGER archived_project BEFORE UPDATE ON project FOR EACH ROW
  WHEN (OLD.status = 'archived' AND NEW.status = 'archived')
  EXECUTE FUNCTION rule_broken('I15: an archived project stays as it is');
CREATE TRIGGER archived_at_rest BEFORE UPDATE OF status ON project FOR EACH ROW
  WHEN (NEW.status = 'archived') EXECUTE FUNCTION archived_at_rest();
CREATE TRIGGER archived_task BEFORE UPDATE ON task FOR EACH ROW EXECUTE FUNCTION archived_stays();
CREATE TRIGGER archived_claim BEFORE UPDATE ON claim FOR EACH ROW EXECUTE FUNCTION archived_stays();
CREATE TRIGGER archived_hold BEFORE INSERT ON claim FOR EACH ROW
  WHEN (NEW.state = 'live') EXECUTE FUNCTION archived_stays();
CREATE TRIGGER archived_handoff BEFORE UPDATE ON handoff FOR EACH ROW EXECUTE FUNCTION archived_stays();
CREATE TRIGGER archived_context BEFORE UPDATE ON context FOR EACH ROW EXECUTE FUNCTION archived_stays();
