"""What every store on an SQL database needs, whichever database that is.

- `connection` and `dialect` are what a database offers, and `writes` names the statements of its own.
- `queue` is for workers, with `claims`, `settling`, `work_rows` and `schedules`.
- `controls` is for operators, `maintenance` for pruning, and `copying` for copies of whole stores, with `marks`.
- `reports` is for readers, with `feed`, `jobs`, `plans`, `paging`, `listing_pages` and `narrowing`. The SQL that
  reads is in `statements`, and `rows` makes records of what it returns.
"""
