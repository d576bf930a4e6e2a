"""Who runs where: a snapshot in, a plan out, a reason for everyone who waits."""
