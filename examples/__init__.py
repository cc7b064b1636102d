"""Small programs that run as they are: each says in its first lines what it shows and how to run it."""
