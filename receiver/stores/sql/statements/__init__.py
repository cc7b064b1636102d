"""The SQL that databases share, written once with the help of their dialects."""
