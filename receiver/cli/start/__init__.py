"""`receiver start`: jobs whose events come to this receiver."""
