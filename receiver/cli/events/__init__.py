"""`receiver events`: the stored events, one file per subcommand."""
