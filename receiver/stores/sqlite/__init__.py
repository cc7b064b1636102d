"""A store in one SQLite file.

- `store` opens its faces: `log`, `queue`, `controls`, `reports` (with the index of words) and `maintenance`.
- `database` is a connection with its thread, and `dialect` has what `stores/sql` leaves to each database.
- `files` finds, creates and migrates the file. `backup` copies it.
- `delivery_keys` is an index that follows after the deliveries. `bodies` keeps long bodies beside the file until
  maintenance moves them into it.
- `checkpoints` moves the log into the file, in the process whose turn it is.
- `locks` knows which workers are dead.
"""
