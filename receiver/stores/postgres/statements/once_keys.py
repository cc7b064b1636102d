"""The SQL of keys that a handler may use only one time."""

ONCE = """
INSERT INTO once_keys AS k (handler, key, asked_at, expires_at) VALUES (:handler, :key, :now, :until)
ON CONFLICT (handler, key) DO UPDATE SET asked_at = excluded.asked_at, expires_at = excluded.expires_at
    WHERE k.expires_at <= excluded.asked_at
"""

AVAILABLE_ONCE_KEYS = """
SELECT s.value FROM unnest(CAST(:keys AS text[])) AS s (value) WHERE NOT EXISTS (
    SELECT 1 FROM once_keys AS k
    WHERE k.handler = :handler AND k.key = s.value AND (k.expires_at IS NULL OR k.expires_at > :now)
)
"""

SET_ONCE_EXPIRY = "UPDATE once_keys SET expires_at = :until WHERE handler = :handler AND key = :key"
