"""The SQL of what an operator decides."""

from receiver.core.work_states import BURIABLE, RETRACTABLE, RETRYABLE
from receiver.stores.sql.statements.columns import in_states

RETRY = f"""
UPDATE work_items SET
    state = iif(lane IS NULL OR heads_lane, 'waiting', 'queued'),
    due_at = iif(lane IS NULL OR heads_lane, :now, NULL), recheck_at = NULL,
    uncounted = attempts, lost = 0, deaths = 0, suspect = 0, hold_until = NULL, action_id = :action
WHERE id IN (SELECT value FROM json_each(:ids)) AND {in_states(RETRYABLE)}
    AND EXISTS (SELECT 1 FROM deliveries WHERE seq = delivery_seq AND pruned_at IS NULL)
"""

BURY = f"""
UPDATE work_items SET
    last_error = iif(state = 'dead', last_error, :reason), state = 'dead', due_at = NULL, recheck_at = NULL,
    heads_lane = 0, action_id = iif(state = 'dead', NULL, :action)
WHERE id IN (SELECT value FROM json_each(:ids))
    AND {in_states(BURIABLE)} AND (state <> 'dead' OR heads_lane)
"""

TAKE_BACK = f"""
UPDATE work_items SET
    last_error = coalesce(last_error, :reason), state = 'dead', due_at = NULL, recheck_at = NULL,
    action_id = :action
WHERE id IN (SELECT value FROM json_each(:ids))
    AND {in_states(RETRACTABLE)} AND attempts = uncounted AND (lane IS NULL OR heads_lane = 0)
"""


SWITCH = """
INSERT INTO handlers (name, switch) VALUES (:handler, :to) ON CONFLICT (name) DO UPDATE SET switch = excluded.switch
"""

FREE_REQUEST = "DELETE FROM quarantine WHERE id = :id"
