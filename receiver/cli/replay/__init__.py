"""`receiver replay`: run handlers on stored events again."""
