"""The SQL that counts what a mass action would touch. Its gaps take columns and sources of rows."""

KINDS = "SELECT DISTINCT {kinds} FROM {source} LIMIT {most}"

SUMS = "SELECT count(*), {sums} FROM {source}"

BY_KIND = """
SELECT {kinds}, count(*) AS number FROM {source} GROUP BY {kinds} ORDER BY number DESC, {kinds} LIMIT {most}
"""

NARROWED = "(SELECT d.* FROM {source}) AS d WHERE {conditions}"
