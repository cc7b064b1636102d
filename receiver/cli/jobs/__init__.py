"""`receiver jobs`: the jobs behind the stored events, one file per subcommand."""
