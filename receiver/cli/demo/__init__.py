"""`receiver demo`: a whole run, from the pages of a site to what handlers make of them."""
