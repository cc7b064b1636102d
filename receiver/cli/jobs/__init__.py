"""`receiver jobs`: the jobs behind the stored events."""
