"""A store in one SQLite file.

- `store` opens its faces: `log`, `queue`, `controls`, `reports`, `maintenance` and `search`.
- `database` is a connection with its thread, and `dialect` has what `stores/sql` leaves to each database.
- `files` finds, creates and migrates the file. `backup` copies it.
- `delivery_keys` and `job_rows` are indexes that follow behind the deliveries.
- `body_files` and `body_writer` keep long bodies beside the file until maintenance moves them into it.
- `checkpoints` moves the log into the file, in the process whose `checkpoint_turn` it is.
- `living_workers` knows which workers are dead, by `file_locks`.
"""
