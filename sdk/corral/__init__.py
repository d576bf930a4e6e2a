"""The client of a Corral server."""
