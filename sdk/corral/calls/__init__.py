"""Every request that the API knows, for tenants and admins, a file for each part of the contract."""
