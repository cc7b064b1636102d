"""What every store on an SQL database needs, whichever database that is.

- `connection` and `dialect` are what a database offers, `statements` is the SQL, and `migrations` makes its tables.
- `queue` is for workers, by the algorithms of `work_items` and `settling`, which `writes` puts together.
- `controls` is for operators, `maintenance` for pruning, and `copying` for copies of whole stores.
- `reports` is for readers, with `jobs` and `listings`; `rows` makes records of what the SQL returns.
"""
