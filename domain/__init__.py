"""The rules of Corral, pure: no clock, no I/O, no randomness."""
