-- Scheduled runs are deliveries that a worker makes. The new check allows more, so no row has to be looked at.
ALTER TABLE {schema}.deliveries DROP CONSTRAINT deliveries_origin_check;
ALTER TABLE {schema}.deliveries ADD CONSTRAINT deliveries_origin_check
    CHECK (origin IN ('sender', 'import', 'backfill', 'schedule')) NOT VALID;

-- The runs of one handler lie together, in the order of time.
CREATE INDEX deliveries_scheduled ON {schema}.deliveries (key) WHERE origin = 'schedule';

-- When each handler with a schedule runs next. `schedule` is how it is written in the code.
CREATE TABLE {schema}.schedules (
    handler  text   COLLATE "C" PRIMARY KEY,
    schedule text   NOT NULL,
    next_at  bigint NOT NULL
) WITH (fillfactor = 50);
