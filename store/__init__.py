"""The database, the only truth, and the only place that speaks SQL."""
