-- Work that is dead or skipped is rare. Pages list it, the newest first, and count it by handler.
CREATE INDEX work_dead ON {schema}.work_items (id, handler, delivery_seq) WHERE state = 'dead';
CREATE INDEX work_skipped ON {schema}.work_items (id, handler) WHERE state = 'skipped';
-- Few deliveries end the check of a monitor, among the pages of many crawls.
CREATE INDEX monitor_checks ON {schema}.deliveries (seq) WHERE type = 'monitor.check.completed';

-- How many deliveries arrived in a minute, up to the mark `summed`. They follow behind with the rows of `jobs`, and
-- are forgotten after two days.
CREATE TABLE {schema}.arrival_minutes (
    minute integer PRIMARY KEY, -- since 1970
    count  bigint  NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_cost_delay = 0);

INSERT INTO {schema}.arrival_minutes
SELECT received_at / 60000000, count(*) FROM {schema}.deliveries
WHERE seq <= (SELECT value FROM {schema}.marks WHERE name = 'summed')
    AND received_at >= (SELECT max(received_at) FROM {schema}.deliveries) - 172800000000 AND origin <> 'schedule'
GROUP BY 1;
