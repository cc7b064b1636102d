-- When what was asked for once may be asked for again; NULL for never. A worker that asks the service about a job
-- may die of it, and another one has to take over.
ALTER TABLE onces ADD COLUMN until INTEGER;
