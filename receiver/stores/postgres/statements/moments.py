"""The SQL of the latest moment that the store knows, and of what waits when the clock was set back."""

from collections.abc import Sequence
from datetime import timedelta

from receiver.core.rules import TIME_STEP

_STEP = TIME_STEP // timedelta(microseconds=1)

MICROS = "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"
"""The time of the database, to compare clocks with it."""

LATEST = "SELECT value FROM marks WHERE name = 'latest'"

# ON CONFLICT locks the row even where it changes nothing, and every worker would wait for every other.
NOTE_TIME = f"""
INSERT INTO marks AS m (name, value)
SELECT 'latest', :now
WHERE NOT EXISTS (SELECT 1 FROM marks WHERE name = 'latest' AND value > CAST(:now AS bigint) - {_STEP})
ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE excluded.value >= m.value + {_STEP}
"""

# The handlers' own `paced_until` needs nothing: `rules.Pace` knows by itself how far ahead it can lie.
MOVE_BACK: Sequence[str] = (
    "UPDATE marks SET value = :now WHERE name = 'latest'",
    "UPDATE work_items SET due_at = greatest(:now, due_at - :by) WHERE state = 'waiting' AND due_at > :now",
    "UPDATE work_items SET recheck_at = greatest(:now, recheck_at - :by), "
    "hold_until = greatest(:now, hold_until - :by) WHERE state = 'held'",
    "UPDATE once_keys SET expires_at = greatest(:now, expires_at - :by) WHERE expires_at > :now",
)
