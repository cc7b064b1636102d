-- The index of words. Its vectors are written by hand (vectors.py), so that every store finds the same. With a body go
-- its words.
CREATE TABLE {schema}.words (
    seq   bigint   PRIMARY KEY REFERENCES {schema}.bodies (seq) ON DELETE CASCADE,
    words tsvector NOT NULL
);
CREATE INDEX words_found ON {schema}.words USING gin (words);

-- Which store this is, whatever server it is moved to.
INSERT INTO {schema}.marks (name, value) VALUES ('identity', floor(random() * 9e15));
