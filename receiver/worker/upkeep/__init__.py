"""What a worker does beside running handlers."""
