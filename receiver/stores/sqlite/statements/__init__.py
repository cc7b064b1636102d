"""The SQL that writes, one module for each port, and what one of its claims has to read.

Rows travel together, as one JSON array or many to a statement. Between two steps of a statement Python gives its
interpreter lock away and takes it again, which can take milliseconds under load. So nothing here runs row by row
where a batch can be long.
"""
