"""Benchmarks that anyone can run: `python -m bench NAME [--json]`. Each measures its floor in the same run."""
