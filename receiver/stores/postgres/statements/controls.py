"""The SQL of what an operator decides."""

from receiver.core.work_states import BURIABLE, RETRACTABLE, RETRYABLE
from receiver.stores.sql.statements.columns import in_states

RETRY = f"""
UPDATE work_items SET
    state = CASE WHEN lane IS NULL OR heads_lane = 1 THEN 'waiting' ELSE 'queued' END,
    due_at = CASE WHEN lane IS NULL OR heads_lane = 1 THEN CAST(:now AS bigint) END, recheck_at = NULL,
    uncounted = attempts, lost = 0, deaths = 0, suspect = 0, hold_until = NULL, action_id = CAST(:action AS bigint)
WHERE id = ANY(:ids) AND {in_states(RETRYABLE)}
    AND EXISTS (SELECT 1 FROM deliveries WHERE seq = delivery_seq AND pruned_at IS NULL)
"""

BURY = f"""
UPDATE work_items SET
    last_error = CASE state WHEN 'dead' THEN last_error ELSE :reason END, state = 'dead', due_at = NULL,
    recheck_at = NULL, heads_lane = 0, action_id = CASE WHEN state <> 'dead' THEN CAST(:action AS bigint) END
WHERE id = ANY(:ids) AND {in_states(BURIABLE)} AND (state <> 'dead' OR heads_lane = 1)
"""

TAKE_BACK = f"""
UPDATE work_items SET
    last_error = coalesce(last_error, :reason), state = 'dead', due_at = NULL, recheck_at = NULL,
    action_id = CAST(:action AS bigint)
WHERE id = ANY(:ids) AND {in_states(RETRACTABLE)} AND attempts = uncounted AND (lane IS NULL OR heads_lane = 0)
"""


SWITCH = """
INSERT INTO handlers (name, switch) VALUES (:handler, :to) ON CONFLICT (name) DO UPDATE SET switch = excluded.switch
"""

STIR = "UPDATE marks SET value = value + 1 WHERE name = 'stirred'"
"""Let workers look for work that they do not know of."""

FREE_REQUEST = "DELETE FROM quarantine WHERE id = :id"
