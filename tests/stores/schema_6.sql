-- A database as schema 6 left it, with work items in every state.
PRAGMA application_id = 1129469489;
PRAGMA user_version = 6;
BEGIN TRANSACTION;
CREATE TABLE attempts (
    work_id    INTEGER NOT NULL,
    number     INTEGER NOT NULL,
    trigger    TEXT    NOT NULL,
    started_at INTEGER, -- unknown for a lost one
    ended_at   INTEGER NOT NULL,
    outcome    TEXT    NOT NULL,
    error      TEXT,
    traceback  TEXT,
    overdue    INTEGER NOT NULL,
    PRIMARY KEY (work_id, number)
) STRICT, WITHOUT ROWID;
INSERT INTO "attempts" VALUES(6,1,'delivery',1785844800000000,1785844801000000,'succeeded',NULL,NULL,0);
INSERT INTO "attempts" VALUES(7,1,'delivery',1785844800000000,1785844801000000,'failed','no','Traceback: no',0);
INSERT INTO "attempts" VALUES(14,1,'delivery',1785844800000000,1785844801000000,'succeeded',NULL,NULL,0);
INSERT INTO "attempts" VALUES(15,1,'delivery',1785844800000000,1785844801000000,'failed','no','Traceback: no',0);
INSERT INTO "attempts" VALUES(17,1,'delivery',1785844800000000,1785844801000000,'failed','ValueError: no','Traceback: ValueError: no',0);
INSERT INTO "attempts" VALUES(18,1,'delivery',1785844800000000,1785844801000000,'failed','ValueError: no','Traceback: ValueError: no',0);
INSERT INTO "attempts" VALUES(21,1,'delivery',NULL,1785844800000000,'lost','the worker died or lost its lease during the attempt',NULL,0);
INSERT INTO "attempts" VALUES(23,1,'delivery',NULL,1785844800000000,'lost','the worker died or lost its lease during the attempt',NULL,0);
INSERT INTO "attempts" VALUES(24,1,'delivery',1785844800000000,1785844801000000,'failed','no','Traceback: no',0);
INSERT INTO "attempts" VALUES(27,1,'replay',1785844800000000,1785844801000000,'succeeded',NULL,NULL,0);
CREATE TABLE bodies (
    seq     INTEGER PRIMARY KEY,
    headers TEXT NOT NULL, -- a JSON list of [name, value]
    body    BLOB NOT NULL
, coding INTEGER NOT NULL DEFAULT 0) STRICT;
INSERT INTO "bodies" VALUES(1,'[["content-type","application/json"]]',X'7B2273756363657373223A747275652C2274797065223A22637261776C2E70616765222C226964223A226A6F62222C22776562686F6F6B4964223A226974656D2D30227D',0);
INSERT INTO "bodies" VALUES(2,'[["content-type","application/json"]]',X'7B2273756363657373223A747275652C2274797065223A22637261776C2E70616765222C226964223A226A6F62222C22776562686F6F6B4964223A226974656D2D31227D',0);
INSERT INTO "bodies" VALUES(3,'[["content-type","application/json"]]',X'7B2273756363657373223A747275652C2274797065223A22637261776C2E70616765222C226964223A226A6F62222C22776562686F6F6B4964223A226974656D2D32227D',0);
INSERT INTO "bodies" VALUES(4,'[["content-type","application/json"]]',X'7B2273756363657373223A747275652C2274797065223A22637261776C2E70616765222C226964223A226A6F62222C22776562686F6F6B4964223A226974656D2D33227D',0);
INSERT INTO "bodies" VALUES(5,'[["content-type","application/json"]]',X'7B2273756363657373223A747275652C2274797065223A22637261776C2E70616765222C226964223A226A6F62222C22776562686F6F6B4964223A226974656D2D34227D',0);
INSERT INTO "bodies" VALUES(6,'[["content-type","application/json"]]',X'7B2273756363657373223A747275652C2274797065223A22637261776C2E70616765222C226964223A226A6F62222C22776562686F6F6B4964223A226974656D2D35227D',0);
INSERT INTO "bodies" VALUES(7,'[["content-type","application/json"]]',X'7B2273756363657373223A747275652C2274797065223A22637261776C2E70616765222C226964223A226A6F62222C22776562686F6F6B4964223A226974656D2D36227D',0);
INSERT INTO "bodies" VALUES(8,'[["content-type","application/json"]]',X'7B2273756363657373223A747275652C2274797065223A22637261776C2E70616765222C226964223A226A6F62222C22776562686F6F6B4964223A226974656D2D37227D',0);
INSERT INTO "bodies" VALUES(9,'[["content-type","application/json"]]',X'7B2273756363657373223A747275652C2274797065223A22637261776C2E70616765222C226964223A226A6F62222C22776562686F6F6B4964223A226974656D2D38227D',0);
INSERT INTO "bodies" VALUES(10,'[["content-type","application/json"]]',X'7B2273756363657373223A747275652C2274797065223A22637261776C2E70616765222C226964223A226A6F62222C22776562686F6F6B4964223A226974656D2D39227D',0);
INSERT INTO "bodies" VALUES(11,'[["content-type","application/json"]]',X'7B2273756363657373223A747275652C2274797065223A22637261776C2E70616765222C226964223A226A6F62222C22776562686F6F6B4964223A226974656D2D3130227D',0);
INSERT INTO "bodies" VALUES(12,'[["content-type","application/json"]]',X'7B2273756363657373223A747275652C2274797065223A22637261776C2E70616765222C226964223A226A6F62222C22776562686F6F6B4964223A226974656D2D3131227D',0);
INSERT INTO "bodies" VALUES(13,'[["content-type","application/json"]]',X'7B2273756363657373223A747275652C2274797065223A22637261776C2E70616765222C226964223A226A6F62222C22776562686F6F6B4964223A226974656D2D3132227D',0);
INSERT INTO "bodies" VALUES(14,'[["content-type","application/json"]]',X'7B2273756363657373223A747275652C2274797065223A22637261776C2E70616765222C226964223A226A6F62222C22776562686F6F6B4964223A226974656D2D3133227D',0);
INSERT INTO "bodies" VALUES(15,'[["content-type","application/json"]]',X'7B2273756363657373223A747275652C2274797065223A22637261776C2E70616765222C226964223A226A6F62222C22776562686F6F6B4964223A226974656D2D3134227D',0);
INSERT INTO "bodies" VALUES(16,'[["content-type","application/json"]]',X'7B2273756363657373223A747275652C2274797065223A22637261776C2E70616765222C226964223A226A6F62222C22776562686F6F6B4964223A226974656D2D3135227D',0);
INSERT INTO "bodies" VALUES(17,'[["content-type","application/json"]]',X'7B2273756363657373223A747275652C2274797065223A22637261776C2E70616765222C226964223A226A6F62222C22776562686F6F6B4964223A226974656D2D3136227D',0);
INSERT INTO "bodies" VALUES(18,'[["content-type","application/json"]]',X'7B2273756363657373223A747275652C2274797065223A22637261776C2E70616765222C226964223A226A6F62222C22776562686F6F6B4964223A226974656D2D3137227D',0);
INSERT INTO "bodies" VALUES(19,'[["content-type","application/json"]]',X'7B2273756363657373223A747275652C2274797065223A22637261776C2E70616765222C226964223A226A6F62222C22776562686F6F6B4964223A226974656D2D3138227D',0);
INSERT INTO "bodies" VALUES(20,'[["content-type","application/json"]]',X'7B2273756363657373223A747275652C2274797065223A22637261776C2E70616765222C226964223A226A6F62222C22776562686F6F6B4964223A226974656D2D3139227D',0);
INSERT INTO "bodies" VALUES(21,'[["content-type","application/json"]]',X'7B2273756363657373223A747275652C2274797065223A22637261776C2E70616765222C226964223A226A6F62222C22776562686F6F6B4964223A226974656D2D3230227D',0);
INSERT INTO "bodies" VALUES(22,'[["content-type","application/json"]]',X'7B2273756363657373223A747275652C2274797065223A22637261776C2E70616765222C226964223A226A6F62222C22776562686F6F6B4964223A226974656D2D3231227D',0);
INSERT INTO "bodies" VALUES(23,'[["content-type","application/json"]]',X'7B2273756363657373223A747275652C2274797065223A22637261776C2E70616765222C226964223A226A6F62222C22776562686F6F6B4964223A226974656D2D3232227D',0);
INSERT INTO "bodies" VALUES(24,'[["content-type","application/json"]]',X'7B2273756363657373223A747275652C2274797065223A22637261776C2E70616765222C226964223A226A6F62222C22776562686F6F6B4964223A226974656D2D3233227D',0);
INSERT INTO "bodies" VALUES(25,'[["content-type","application/json"]]',X'7B2273756363657373223A747275652C2274797065223A22637261776C2E70616765222C226964223A226A6F62222C22776562686F6F6B4964223A226974656D2D3234227D',0);
INSERT INTO "bodies" VALUES(26,'[["content-type","application/json"]]',X'7B2273756363657373223A747275652C2274797065223A22637261776C2E70616765222C226964223A226A6F62222C22776562686F6F6B4964223A226974656D2D3235227D',0);
INSERT INTO "bodies" VALUES(27,'[["content-type","application/json"]]',X'7B2273756363657373223A747275652C2274797065223A22637261776C2E70616765222C226964223A226A6F62222C22776562686F6F6B4964223A226974656D2D3236227D',0);
INSERT INTO "bodies" VALUES(28,'[["content-type","application/json"]]',X'7B2273756363657373223A747275652C2274797065223A22637261776C2E70616765222C226964223A226A6F62222C22776562686F6F6B4964223A22696D706F72746564227D',0);
INSERT INTO "bodies" VALUES(29,'[["content-type","application/json"]]',X'7B2273756363657373223A747275652C2274797065223A22637261776C2E70616765222C226964223A226A6F62222C22776562686F6F6B4964223A2266657463686564227D',0);
INSERT INTO "bodies" VALUES(32,'[["content-type","application/json"]]',X'7801EDD4310D00000803302BB8E359C0FF870E923E13B06CCD4E57840EECC00D50404212929084242421094948421292908424242109494842129290842424210949484212929084242421094948C2DF121E1BB329D3',1);
INSERT INTO "bodies" VALUES(33,'[["content-type","application/json"]]',X'7B2273756363657373223A747275652C2274797065223A22637261776C2E70616765222C226964223A226A6F62222C22776562686F6F6B4964223A226E6577227D',0);
CREATE TABLE deliveries (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT, -- grows in the order of commits; never used again
    key         TEXT    NOT NULL UNIQUE,
    type        TEXT    NOT NULL,
    job_id      TEXT,
    webhook_id  TEXT,
    success     INTEGER,
    received_at INTEGER NOT NULL, -- microseconds since 1970, UTC, as all moments here
    size        INTEGER NOT NULL,
    duplicates  INTEGER NOT NULL DEFAULT 0
, origin TEXT NOT NULL DEFAULT 'sender'
    CHECK (origin IN ('sender', 'import', 'backfill')), pruned_at INTEGER) STRICT;
INSERT INTO "deliveries" VALUES(1,'item-0','crawl.page','job','item-0',1,1785844800000000,68,0,'sender',NULL);
INSERT INTO "deliveries" VALUES(2,'item-1','crawl.page','job','item-1',1,1785844800000000,68,0,'sender',NULL);
INSERT INTO "deliveries" VALUES(3,'item-2','crawl.page','job','item-2',1,1785844800000000,68,0,'sender',NULL);
INSERT INTO "deliveries" VALUES(4,'item-3','crawl.page','job','item-3',1,1785844800000000,68,0,'sender',NULL);
INSERT INTO "deliveries" VALUES(5,'item-4','crawl.page','job','item-4',1,1785844800000000,68,0,'sender',NULL);
INSERT INTO "deliveries" VALUES(6,'item-5','crawl.page','job','item-5',1,1785844800000000,68,0,'sender',NULL);
INSERT INTO "deliveries" VALUES(7,'item-6','crawl.page','job','item-6',1,1785844800000000,68,0,'sender',NULL);
INSERT INTO "deliveries" VALUES(8,'item-7','crawl.page','job','item-7',1,1785844800000000,68,0,'sender',NULL);
INSERT INTO "deliveries" VALUES(9,'item-8','crawl.page','job','item-8',1,1785844800000000,68,0,'sender',NULL);
INSERT INTO "deliveries" VALUES(10,'item-9','crawl.page','job','item-9',1,1785844800000000,68,0,'sender',NULL);
INSERT INTO "deliveries" VALUES(11,'item-10','crawl.page','job','item-10',1,1785844800000000,69,0,'sender',NULL);
INSERT INTO "deliveries" VALUES(12,'item-11','crawl.page','job','item-11',1,1785844800000000,69,0,'sender',NULL);
INSERT INTO "deliveries" VALUES(13,'item-12','crawl.page','job','item-12',1,1785844800000000,69,0,'sender',NULL);
INSERT INTO "deliveries" VALUES(14,'item-13','crawl.page','job','item-13',1,1785844800000000,69,0,'sender',NULL);
INSERT INTO "deliveries" VALUES(15,'item-14','crawl.page','job','item-14',1,1785844800000000,69,0,'sender',NULL);
INSERT INTO "deliveries" VALUES(16,'item-15','crawl.page','job','item-15',1,1785844800000000,69,0,'sender',NULL);
INSERT INTO "deliveries" VALUES(17,'item-16','crawl.page','job','item-16',1,1785844800000000,69,0,'sender',NULL);
INSERT INTO "deliveries" VALUES(18,'item-17','crawl.page','job','item-17',1,1785844800000000,69,0,'sender',NULL);
INSERT INTO "deliveries" VALUES(19,'item-18','crawl.page','job','item-18',1,1785844800000000,69,0,'sender',NULL);
INSERT INTO "deliveries" VALUES(20,'item-19','crawl.page','job','item-19',1,1785844800000000,69,0,'sender',NULL);
INSERT INTO "deliveries" VALUES(21,'item-20','crawl.page','job','item-20',1,1785844800000000,69,0,'sender',NULL);
INSERT INTO "deliveries" VALUES(22,'item-21','crawl.page','job','item-21',1,1785844800000000,69,0,'sender',NULL);
INSERT INTO "deliveries" VALUES(23,'item-22','crawl.page','job','item-22',1,1785844800000000,69,0,'sender',NULL);
INSERT INTO "deliveries" VALUES(24,'item-23','crawl.page','job','item-23',1,1785844800000000,69,0,'sender',NULL);
INSERT INTO "deliveries" VALUES(25,'item-24','crawl.page','job','item-24',1,1785844800000000,69,0,'sender',NULL);
INSERT INTO "deliveries" VALUES(26,'item-25','crawl.page','job','item-25',1,1785844800000000,69,0,'sender',NULL);
INSERT INTO "deliveries" VALUES(27,'item-26','crawl.page','job','item-26',1,1785844800000000,69,0,'sender',NULL);
INSERT INTO "deliveries" VALUES(28,'imported','crawl.page','job','imported',1,1785844800000000,70,1,'import',NULL);
INSERT INTO "deliveries" VALUES(29,'fetched','crawl.page','job','fetched',1,1785844800000000,69,0,'backfill',NULL);
INSERT INTO "deliveries" VALUES(31,'old','old.event','job','old',1,1785844800000000,64,0,'sender',1785844800000000);
INSERT INTO "deliveries" VALUES(32,'long','crawl.page','job','long',1,1785844800000000,10000,0,'sender',NULL);
INSERT INTO "deliveries" VALUES(33,'new','crawl.page','job','new',1,1785844800000000,65,0,'sender',NULL);
CREATE TABLE handlers (
    name        TEXT PRIMARY KEY,
    switch      TEXT NOT NULL DEFAULT 'on' CHECK (switch IN ('on', 'paused', 'disabled')),
    paced_until INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
INSERT INTO "handlers" VALUES('disabled','disabled',0);
INSERT INTO "handlers" VALUES('paced','on',1785844860000000);
INSERT INTO "handlers" VALUES('paused','paused',0);
INSERT INTO "handlers" VALUES('skipped','on',0);
INSERT INTO "handlers" VALUES('skipped-in-lane','on',0);
CREATE TABLE marks (
    name  TEXT    PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "marks" VALUES('backfilled',1);
INSERT INTO "marks" VALUES('compressed',32);
INSERT INTO "marks" VALUES('indexed',0);
INSERT INTO "marks" VALUES('routed',32);
CREATE TABLE onces (
    handler TEXT    NOT NULL,
    key     TEXT    NOT NULL,
    at      INTEGER NOT NULL, until INTEGER,
    PRIMARY KEY (handler, key)
) STRICT, WITHOUT ROWID;
INSERT INTO "onces" VALUES('one','for ever',1785844800000000,NULL);
INSERT INTO "onces" VALUES('one','until then',1785844800000000,1785931200000000);
CREATE TABLE quarantine (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    received_at INTEGER NOT NULL,
    reason      TEXT    NOT NULL,
    detail      TEXT    NOT NULL,
    key         TEXT,
    headers     TEXT    NOT NULL,
    body        BLOB    NOT NULL
) STRICT;
INSERT INTO "quarantine" VALUES(1,1785844800000000,'malformed','no JSON',NULL,'[["a","b"]]',X'FF');
INSERT INTO "quarantine" VALUES(2,1785844800000000,'conflict','a delivery with this key and another body was stored before','imported','[["content-type","application/json"]]',X'6F74686572');
CREATE TABLE "work_items" (
    id           INTEGER PRIMARY KEY AUTOINCREMENT, -- grows in the order of arrival, within a lane too
    delivery_seq INTEGER NOT NULL,
    handler      TEXT    NOT NULL,
    state        TEXT    NOT NULL
        CHECK (state IN ('waiting', 'queued', 'held', 'running', 'done', 'dead', 'skipped')),
    attempts     INTEGER NOT NULL, -- how many have been claimed
    uncounted    INTEGER NOT NULL DEFAULT 0, -- how many of them do not count against the schedule
    lost         INTEGER NOT NULL DEFAULT 0, -- how many ended with their worker
    deaths       INTEGER NOT NULL DEFAULT 0, -- how many of those are known to have begun
    suspect      INTEGER NOT NULL DEFAULT 0, -- it may be what killed its workers
    begun        INTEGER NOT NULL DEFAULT 0, -- running, and known to have begun
    trigger      TEXT    NOT NULL, -- of the first attempt; the later ones are retries
    due_at       INTEGER NOT NULL, -- waiting: when it may be claimed; held: the next look; running: the lease's end
    worker       TEXT, -- who holds the lease
    lane         TEXT,
    heads_lane   INTEGER NOT NULL DEFAULT 0, -- the others of its lane are queued behind it
    hold_until   INTEGER, -- when a held item runs at the latest
    note         TEXT, -- what a held item waits for
    last_error   TEXT
) STRICT;
INSERT INTO "work_items" VALUES(1,1,'waiting','waiting',0,0,0,0,0,0,'delivery',1785844800000000,NULL,NULL,0,NULL,NULL,NULL);
INSERT INTO "work_items" VALUES(2,2,'queued','waiting',0,0,0,0,0,0,'delivery',1785844800000000,NULL,'lane-1',1,NULL,NULL,NULL);
INSERT INTO "work_items" VALUES(3,3,'queued','queued',0,0,0,0,0,0,'delivery',1785844800000000,NULL,'lane-1',0,NULL,NULL,NULL);
INSERT INTO "work_items" VALUES(4,4,'held','held',0,0,0,0,0,0,'delivery',1785844801000000,NULL,NULL,0,1785844860000000,NULL,NULL);
INSERT INTO "work_items" VALUES(5,5,'running','running',1,0,0,0,0,0,'delivery',1785844860000000,'worker-a',NULL,0,NULL,NULL,NULL);
INSERT INTO "work_items" VALUES(6,6,'done','done',1,0,0,0,0,0,'delivery',1785844860000000,NULL,NULL,0,NULL,NULL,NULL);
INSERT INTO "work_items" VALUES(7,7,'dead','dead',1,0,0,0,0,0,'delivery',1785844800000000,NULL,NULL,0,NULL,NULL,'no');
INSERT INTO "work_items" VALUES(8,8,'skipped','skipped',0,0,0,0,0,0,'delivery',1785844800000000,NULL,NULL,0,NULL,NULL,NULL);
INSERT INTO "work_items" VALUES(9,9,'waiting-in-lane','waiting',0,0,0,0,0,0,'delivery',1785844800000000,NULL,'lane-waiting',1,NULL,NULL,NULL);
INSERT INTO "work_items" VALUES(10,10,'queued-in-lane','waiting',0,0,0,0,0,0,'delivery',1785844800000000,NULL,'lane-queued',1,NULL,NULL,NULL);
INSERT INTO "work_items" VALUES(11,11,'queued-in-lane','queued',0,0,0,0,0,0,'delivery',1785844800000000,NULL,'lane-queued',0,NULL,NULL,NULL);
INSERT INTO "work_items" VALUES(12,12,'held-in-lane','held',0,0,0,0,0,0,'delivery',1785844801000000,NULL,'lane-held',0,1785844860000000,NULL,NULL);
INSERT INTO "work_items" VALUES(13,13,'running-in-lane','running',1,0,0,0,0,0,'delivery',1785844860000000,'worker-a','lane-running',1,NULL,NULL,NULL);
INSERT INTO "work_items" VALUES(14,14,'done-in-lane','done',1,0,0,0,0,0,'delivery',1785844860000000,NULL,'lane-done',0,NULL,NULL,NULL);
INSERT INTO "work_items" VALUES(15,15,'dead-in-lane','dead',1,0,0,0,0,0,'delivery',1785844800000000,NULL,'lane-dead',0,NULL,NULL,'no');
INSERT INTO "work_items" VALUES(16,16,'skipped-in-lane','skipped',0,0,0,0,0,0,'delivery',1785844800000000,NULL,'lane-skipped',0,NULL,NULL,NULL);
INSERT INTO "work_items" VALUES(17,17,'failed','waiting',1,0,0,0,0,0,'delivery',1785845100000000,NULL,NULL,0,NULL,NULL,'ValueError: no');
INSERT INTO "work_items" VALUES(18,18,'dead-holds','dead',1,0,0,0,0,0,'delivery',1785844800000000,NULL,'held-lane',1,NULL,NULL,'ValueError: no');
INSERT INTO "work_items" VALUES(19,19,'dead-holds','queued',0,0,0,0,0,0,'delivery',1785844800000000,NULL,'held-lane',0,NULL,NULL,NULL);
INSERT INTO "work_items" VALUES(20,20,'started','running',1,0,0,0,0,1,'delivery',1785844860000000,'worker-b',NULL,0,NULL,NULL,NULL);
INSERT INTO "work_items" VALUES(21,21,'lost','waiting',1,1,1,1,1,0,'delivery',1785844800000000,NULL,NULL,0,NULL,NULL,'the worker died or lost its lease during the attempt');
INSERT INTO "work_items" VALUES(22,22,'rechecked','held',0,0,0,0,0,0,'delivery',1785844802000000,NULL,NULL,0,1785844860000000,'waits: a page is missing',NULL);
INSERT INTO "work_items" VALUES(23,23,'gone','waiting',1,1,1,0,0,0,'delivery',1785844799000000,NULL,NULL,0,NULL,NULL,'the worker died or lost its lease during the attempt');
INSERT INTO "work_items" VALUES(24,24,'retried','waiting',1,1,0,0,0,0,'delivery',1785844801000000,NULL,NULL,0,NULL,NULL,'no');
INSERT INTO "work_items" VALUES(25,25,'buried','dead',0,0,0,0,0,0,'delivery',1785844800000000,NULL,NULL,0,NULL,NULL,'not wanted');
INSERT INTO "work_items" VALUES(26,25,'replayed','waiting',0,0,0,0,0,0,'replay',1785844800000000,NULL,NULL,0,NULL,NULL,NULL);
INSERT INTO "work_items" VALUES(27,25,'recorded','done',1,0,0,0,0,0,'replay',1785844800000000,NULL,NULL,0,NULL,NULL,NULL);
INSERT INTO "work_items" VALUES(28,26,'paced','running',1,0,0,0,0,0,'delivery',1785844860000000,'worker-a',NULL,0,NULL,NULL,NULL);
INSERT INTO "work_items" VALUES(29,27,'paced','waiting',0,0,0,0,0,0,'delivery',1785844800000000,NULL,NULL,0,NULL,NULL,NULL);
CREATE INDEX deliveries_by_job ON deliveries (job_id, seq) WHERE job_id IS NOT NULL;
CREATE INDEX work_by_delivery ON work_items (delivery_seq, state);
CREATE INDEX work_waiting ON work_items (handler, due_at) WHERE state = 'waiting';
CREATE INDEX work_suspects ON work_items (handler, due_at) WHERE state = 'waiting' AND suspect = 1;
CREATE INDEX work_held ON work_items (handler, due_at) WHERE state = 'held';
CREATE INDEX work_running ON work_items (due_at, handler) WHERE state = 'running';
CREATE INDEX lane_queue ON work_items (handler, lane, id) WHERE state = 'queued';
CREATE UNIQUE INDEX lane_heads ON work_items (handler, lane) WHERE heads_lane = 1;
CREATE INDEX work_failed ON work_items (handler, delivery_seq) WHERE state = 'dead' OR last_error IS NOT NULL;
CREATE INDEX job_ends ON deliveries (job_id, seq)
    WHERE type GLOB '*.completed' OR type GLOB '*.failed' OR type GLOB '*.cancelled';
CREATE INDEX attempts_lost ON attempts (work_id) WHERE outcome = 'lost';
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('work_items',40);
INSERT INTO "sqlite_sequence" VALUES('deliveries',33);
INSERT INTO "sqlite_sequence" VALUES('quarantine',2);
COMMIT;
