"""`receiver store`: commands for whole stores, one file for each."""
