"""`receiver replay`: stored events once more."""
