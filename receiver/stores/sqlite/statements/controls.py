"""The SQL of what an operator decides."""

RETRY = """
UPDATE work_items SET
    state = iif(lane IS NULL OR heads_lane, 'waiting', 'queued'),
    due_at = iif(lane IS NULL OR heads_lane, :now, NULL), recheck_at = NULL,
    uncounted = attempts, lost = 0, deaths = 0, suspect = 0, hold_until = NULL
WHERE id IN (SELECT value FROM json_each(:ids)) AND state IN ('dead', 'skipped', 'waiting', 'held')
    AND EXISTS (SELECT 1 FROM deliveries WHERE seq = delivery_seq AND pruned_at IS NULL)
"""

BURY = """
UPDATE work_items SET
    last_error = iif(state = 'dead', last_error, :reason), state = 'dead', due_at = NULL, recheck_at = NULL,
    heads_lane = 0
WHERE id IN (SELECT value FROM json_each(:ids))
    AND (state IN ('waiting', 'queued', 'held') OR (state = 'dead' AND heads_lane))
"""

SWITCH = """
INSERT INTO handlers (name, switch) VALUES (:handler, :to) ON CONFLICT (name) DO UPDATE SET switch = excluded.switch
"""

FREE_REQUEST = "DELETE FROM quarantine WHERE id = :id"
