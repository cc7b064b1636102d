"""The SQL of keys that a handler may use only one time."""

ONCE = """
INSERT INTO once_keys (handler, key, asked_at, expires_at) VALUES (:handler, :key, :now, :until)
ON CONFLICT (handler, key) DO UPDATE SET asked_at = excluded.asked_at, expires_at = excluded.expires_at
    WHERE expires_at <= excluded.asked_at
"""

AVAILABLE_ONCE_KEYS = """
SELECT value FROM json_each(:keys) WHERE NOT EXISTS (
    SELECT 1 FROM once_keys
    WHERE handler = :handler AND key = value AND (expires_at IS NULL OR expires_at > :now)
)
"""

SET_ONCE_EXPIRY = "UPDATE once_keys SET expires_at = :until WHERE handler = :handler AND key = :key"
