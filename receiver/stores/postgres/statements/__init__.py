"""The SQL that writes, one module for each port. The tables get their schema from `connection.translate`."""
