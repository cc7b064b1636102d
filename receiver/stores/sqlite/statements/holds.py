"""The SQL of held work items and of the pages that they wait for."""

from receiver.core.types import Trigger
from receiver.core.work_states import OPEN
from receiver.stores.sql.statements.columns import ROUTED, in_states

HELD = """
SELECT w.recheck_at, w.id, w.handler, d.type, d.job_id, d.received_at, w.hold_until
FROM work_items AS w JOIN deliveries AS d ON d.seq = w.delivery_seq
WHERE w.handler = :handler AND w.state = 'held' AND w.recheck_at <= :now ORDER BY w.recheck_at LIMIT :limit
"""

LAST_PAGE = """
SELECT received_at FROM deliveries WHERE job_id = :job_id AND type = :page_type ORDER BY seq DESC LIMIT 1
"""

UNROUTED_PAGE = f"""
SELECT key FROM deliveries WHERE job_id = :job_id AND type = :page_type AND seq > ({ROUTED}) LIMIT 1
"""

# The newest first: if a page is open, it is mostly among these.
OPEN_PAGE = f"""
SELECT d.key FROM deliveries AS d JOIN work_items AS w ON w.delivery_seq = d.seq
WHERE d.job_id = :job_id AND d.type = :page_type AND {in_states(OPEN, "w.state")}
    AND w.handler IN (SELECT value FROM json_each(:handlers)) AND w.trigger <> '{Trigger.LATER}'
ORDER BY d.seq DESC LIMIT 1
"""

# Another worker may have moved the end of the hold back with the clock, while this one decided by the time before.
RECHECK = """
UPDATE work_items SET recheck_at = min(:at, coalesce(hold_until, :at)), note = :note
WHERE id = :id AND state = 'held'
"""

# An item with a lane joins the queue. PROMOTE then takes it at once if the lane has no head.
RELEASE = """
UPDATE work_items SET
    state = iif(lane IS NULL, 'waiting', 'queued'), due_at = iif(lane IS NULL, :now, NULL), recheck_at = NULL,
    note = :note
WHERE id = :id AND state = 'held'
"""
