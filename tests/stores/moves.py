"""Every change of a work item's state in an SQL database, as the database itself saw it."""

from receiver.core.types import WorkState
from receiver.core.work_states import MOVES
from tests.stores.outside import Tables

ALLOWED = frozenset((before, after) for (before, _), after in MOVES.items())
"""The pairs of states that the table has."""

WATCH_SQLITE = """
CREATE TABLE moves (before TEXT, after TEXT, UNIQUE (before, after));
CREATE TRIGGER watch_made AFTER INSERT ON work_items BEGIN
    INSERT INTO moves SELECT NULL, new.state WHERE NOT EXISTS (
        SELECT 1 FROM moves WHERE before IS NULL AND after = new.state
    );
END;
CREATE TRIGGER watch_moved AFTER UPDATE OF state ON work_items BEGIN
    INSERT OR IGNORE INTO moves VALUES (old.state, new.state);
END;
"""
"""From now on, let the database note every pair of states: before and after an INSERT or an UPDATE."""

WATCH_POSTGRES = """
CREATE TABLE moves (before text, after text);
CREATE FUNCTION note_move() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO moves VALUES (CASE TG_OP WHEN 'UPDATE' THEN old.state END, new.state);
    RETURN NULL;
END
$$;
CREATE TRIGGER watch_made AFTER INSERT ON work_items FOR EACH ROW EXECUTE FUNCTION note_move();
CREATE TRIGGER watch_moved AFTER UPDATE OF state ON work_items FOR EACH ROW EXECUTE FUNCTION note_move();
"""
"""The same. Nothing is unique, so that transactions do not wait for each other."""


def watched_moves(tables: Tables) -> set[tuple[WorkState | None, WorkState]]:
    """Return the pairs of states that the database has seen."""
    return {
        (None if before is None else WorkState(before), WorkState(after))
        for before, after in tables.select("SELECT DISTINCT before, after FROM moves")
    }
