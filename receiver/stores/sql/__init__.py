"""What every store on an SQL database needs, whichever database that is."""
