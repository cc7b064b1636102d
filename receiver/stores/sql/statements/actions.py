"""The SQL of what people did."""

BEGIN_ACTION = """
INSERT INTO actions (actor, verb, about, choice, planned, began_at, seen_at)
VALUES (:actor, :verb, :about, :choice, :planned, :now, :now) RETURNING id
"""

ADVANCE_ACTION = """
UPDATE actions SET seen = seen + :seen, changed = changed + :changed, seen_at = :now WHERE id = :action
"""

END_ACTION = "UPDATE actions SET ended_at = :now, error = :error WHERE id = :action"

_COLUMNS = "id, actor, verb, about, choice, planned, began_at, seen_at, ended_at, seen, changed, error"


ACTIONS = f"SELECT {_COLUMNS} FROM actions WHERE id < :before ORDER BY id DESC LIMIT :rows"

ACTION = f"SELECT {_COLUMNS} FROM actions WHERE id = :id"

_OLD = "began_at < :before OR id <= (SELECT max(id) FROM actions) - :keep"

ANY_OLD_ACTION = f"SELECT count(*) FROM (SELECT 1 FROM actions WHERE {_OLD} LIMIT 1) AS old"

FORGET_ACTIONS = f"DELETE FROM actions WHERE id IN (SELECT id FROM actions WHERE {_OLD} ORDER BY id LIMIT :limit)"
