"""What a backup asks a store of any schema version."""

CONTENTS = "SELECT count(*), max(received_at) FROM deliveries"

NEWER = "SELECT count(*) FROM deliveries WHERE received_at > ?"

HAS_WORKERS = "SELECT 1 FROM sqlite_schema WHERE name = 'workers'"

NO_WORKERS = "DELETE FROM workers"

# Nobody knows how an attempt ended that ran while the backup was made. It is lost, and makes nothing a suspect.
END_LEASES = "UPDATE work_items SET lease_until = 0, started = 0 WHERE state = 'running'"
