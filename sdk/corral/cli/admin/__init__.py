"""`corral admin`: what rules the platform."""
