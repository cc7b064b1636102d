"""The PostgreSQL store: any number of web and worker processes on any number of machines."""
