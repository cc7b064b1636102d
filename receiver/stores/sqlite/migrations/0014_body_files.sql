-- A long body of a new delivery lies in a file beside the database until it is moved into it. Then `coding` is 2, and
-- `body` is the place: 8 bytes name the file.
CREATE INDEX bodies_beside ON bodies (substr(body, 1, 8)) WHERE coding = 2;

-- Names the files of this database, so that it takes no others for its own.
INSERT INTO marks (name, value) VALUES ('store', random() & 4294967295);
