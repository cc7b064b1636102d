"""Which work items a delivery makes."""
