"""HTTP: the endpoint, health checks, and the server around them."""
