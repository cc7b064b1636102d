-- Where deliveries came from, and which of them still have their bodies.
ALTER TABLE deliveries ADD COLUMN origin TEXT NOT NULL DEFAULT 'sender'
    CHECK (origin IN ('sender', 'import', 'backfill'));
ALTER TABLE deliveries ADD COLUMN pruned_at INTEGER; -- when its row in `bodies` was removed

-- How a body is written: 0 as it came, 1 deflated (RFC 1950).
ALTER TABLE bodies ADD COLUMN coding INTEGER NOT NULL DEFAULT 0;

-- What failed is looked for among much more that did not.
CREATE INDEX work_failed ON work_items (handler, delivery_seq) WHERE state = 'dead' OR last_error IS NOT NULL;
