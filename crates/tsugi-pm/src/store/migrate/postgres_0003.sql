CREATE FUNCTION rule_broken() RETURNS trigger LANGUAGE plpgsql AS $body$ BEGIN RAISE EXCEPTION '%', TG_ARGV[0]; END $body$;
CREATE TRIGGER handoff_pending_once BEFORE UPDATE OF status ON handoff FOR EACH ROW
  WHEN (OLD.status <> 'pending' AND NEW.status = 'pending')
  EXECUTE FUNCTION rule_broken('I5: a handoff leaves pending once');
CREATE TRIGGER task_fence_grows BEFORE UPDATE OF fence ON task FOR EACH ROW
  WHEN (NEW.fence < OLD.fence)
  EXECUTE FUNCTION rule_broken('I3: a fence only grows');
CREATE FUNCTION dependency_in_project() RETURNS trigger LANGUAGE plpgsql AS $body$ BEGIN
  IF EXISTS (SELECT 1 FROM task WHERE id IN (NEW.task_id, NEW.depends_on_id) AND project_id <> NEW.project_id) THEN
    RAISE EXCEPTION 'I7: a dependency stays in one project';
  END IF;
  RETURN NEW;
END $body$;
CREATE TRIGGER dependency_in_project BEFORE INSERT ON dependency FOR EACH ROW EXECUTE FUNCTION dependency_in_project();
