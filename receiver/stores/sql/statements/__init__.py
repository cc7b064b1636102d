"""The SQL that reads, written once for every database with the help of its dialect."""
