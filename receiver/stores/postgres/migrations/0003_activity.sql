-- How many attempts ended in a minute, by handler, outcome and power of two of their microseconds. They are counted
-- in the transaction that records the attempts, and forgotten after two days.
CREATE TABLE {schema}.handler_minutes (
    minute  integer  NOT NULL, -- since 1970
    handler text     COLLATE "C" NOT NULL,
    outcome text     COLLATE "C" NOT NULL,
    bucket  smallint NOT NULL,
    part    integer  NOT NULL, -- the server's process that counted: no transaction waits for the row of another
    count   bigint   NOT NULL,
    PRIMARY KEY (minute, handler, outcome, bucket, part)
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_cost_delay = 0);

-- A row for each worker that runs. It shows who works; who may take whose leases is decided elsewhere.
CREATE TABLE {schema}.workers (
    name       text   COLLATE "C" PRIMARY KEY,
    machine    text   NOT NULL,
    pid        bigint NOT NULL,
    version    text   NOT NULL,
    started_at bigint NOT NULL,
    seen_at    bigint NOT NULL -- the worker says again and again that it lives
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_cost_delay = 0);
