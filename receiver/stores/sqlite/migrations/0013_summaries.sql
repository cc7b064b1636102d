-- Work that is dead or skipped is rare. Pages list it, the newest first, and count it by handler.
CREATE INDEX work_dead ON work_items (id, handler, delivery_seq) WHERE state = 'dead';
CREATE INDEX work_skipped ON work_items (id, handler) WHERE state = 'skipped';
-- Few deliveries end the check of a monitor, among the pages of many crawls.
CREATE INDEX monitor_checks ON deliveries (seq) WHERE type = 'monitor.check.completed';

-- How many deliveries arrived in a minute, up to the mark `summed`. They follow behind with the rows of `jobs`, and
-- are forgotten after two days.
CREATE TABLE arrival_minutes (
    minute INTEGER PRIMARY KEY, -- since 1970
    count  INTEGER NOT NULL
) STRICT;

INSERT INTO arrival_minutes
SELECT received_at / 60000000, count(*) FROM deliveries
WHERE seq <= (SELECT value FROM marks WHERE name = 'summed')
    AND received_at >= (SELECT max(received_at) FROM deliveries) - 172800000000 AND origin <> 'schedule'
GROUP BY 1;
