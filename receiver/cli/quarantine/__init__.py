"""`receiver quarantine`: requests that were authentic and refused."""
