"""In one process, from signed request to handler."""
