"""What a backup asks a store of any schema version."""

CONTENTS = "SELECT count(*), max(received_at) FROM deliveries"
