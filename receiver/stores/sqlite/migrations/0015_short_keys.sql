-- The index has 8 bytes of a UUID and 9 of a SHA-256 (delivery_keys.py) and is smaller by a third: less to read and to
-- write. Two keys may have the same bytes, so that a row of `deliveries` has to be asked.
CREATE TABLE short_keys (
    key ANY     NOT NULL, -- as `index_key` writes it
    seq INTEGER NOT NULL,
    PRIMARY KEY (key, seq)
) STRICT, WITHOUT ROWID;

INSERT INTO short_keys
SELECT
    iif(typeof(key) = 'blob', CAST(substr(key, 1, 4) || substr(key, iif(length(key) = 16, -4, -5)) AS BLOB), key) AS short,
    seq
FROM delivery_keys ORDER BY short, seq;

DROP TABLE delivery_keys;
ALTER TABLE short_keys RENAME TO delivery_keys;

-- What `keyed` will be when the keys that are moved now have been, and how far that is (delivery_keys.py).
INSERT INTO marks (name, value) VALUES ('keys_moving', 0), ('keys_place', 0), ('keys_part', 0);
