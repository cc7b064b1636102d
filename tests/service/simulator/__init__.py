"""The simulator: its model against closed forms and another implementation, its questions and pictures."""
