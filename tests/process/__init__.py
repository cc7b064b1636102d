"""Real processes on this machine: killed, starved, blocked, and spoken to rudely."""
