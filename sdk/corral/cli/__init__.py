"""The command `corral`, for tenants and admins."""
