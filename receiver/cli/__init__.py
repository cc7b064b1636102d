"""The `receiver` command: a file per command, imported when it is asked for."""
