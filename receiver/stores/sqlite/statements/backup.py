"""What a backup asks a store of any schema version."""

CONTENTS = "SELECT count(*), max(received_at) FROM deliveries"

NEWER = "SELECT count(*) FROM deliveries WHERE received_at > ?"
