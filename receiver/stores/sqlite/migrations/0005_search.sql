-- What ends a job, so that whether one has ended is seen without looking at its pages.
CREATE INDEX job_ends ON deliveries (job_id, seq)
    WHERE type GLOB '*.completed' OR type GLOB '*.failed' OR type GLOB '*.cancelled';

-- `indexed` is the seq up to which deliveries are in the index of words. The index itself, `words`, is made when
-- it is switched on: not every SQLite can make one.
INSERT INTO marks (name, value) VALUES ('indexed', 0);
