"""The wall between a tenant's code and everything else."""
