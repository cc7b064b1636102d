-- One row for each job, so that a listing does not go through the deliveries of all jobs. They follow behind
-- (job_rows.py): jobs are what their deliveries up to the mark `summed` say.
CREATE TABLE jobs (
    last_seq INTEGER PRIMARY KEY, -- its last delivery up to the mark, which has its id
    first_at INTEGER NOT NULL,    -- when its first delivery came
    last_at  INTEGER NOT NULL,    -- when its last one up to the mark came
    end_type TEXT                 -- the type of the first delivery that ends it
) STRICT;

INSERT INTO jobs
SELECT
    j.last_seq,
    (SELECT f.received_at FROM deliveries AS f WHERE f.seq = j.first_seq),
    (SELECT l.received_at FROM deliveries AS l WHERE l.seq = j.last_seq),
    (
        SELECT e.type FROM deliveries AS e
        WHERE e.job_id = j.job_id AND (e.type GLOB '*.completed' OR e.type GLOB '*.failed' OR e.type GLOB '*.cancelled')
        ORDER BY e.seq LIMIT 1
    )
FROM (
    SELECT job_id, min(seq) AS first_seq, max(seq) AS last_seq FROM deliveries WHERE job_id IS NOT NULL GROUP BY job_id
) AS j
ORDER BY 1;

INSERT INTO marks (name, value) SELECT 'summed', coalesce(max(seq), 0) FROM deliveries;

-- Every handler that ever had a work item has a row, so that nobody looks through all items for one that had none.
INSERT OR IGNORE INTO handlers (name) SELECT DISTINCT handler FROM work_items;

CREATE TRIGGER new_handler AFTER INSERT ON work_items
WHEN NOT EXISTS (SELECT 1 FROM handlers WHERE name = new.handler)
BEGIN
    INSERT INTO handlers (name) VALUES (new.handler);
END;
