-- When what was asked for once may be asked for again; NULL for never. A worker that asks the service about a job
-- may die of it, and another one has to take over.
ALTER TABLE onces ADD COLUMN until INTEGER;

-- Attempts that ended with their worker or its lease are counted for whoever watches, and are few.
CREATE INDEX attempts_lost ON attempts (work_id) WHERE outcome = 'lost';
