"""The user that a job runs as where the agent is root: not root, no one's on the host, and another for each tenant.

The kernel counts inotify instances, message queues, locked memory, queued signals and the buffers of pipes over all
processes of one user, whatever walls stand around them: with one user for all, a tenant could use them up for others.
"""

import hashlib
from typing import Final

from domain.ids import TenantId

PLENTY: Final = range(0x6000_0000, 0x7000_0000)
"""Ids that systemd keeps for containers, and so gives to nobody; two tenants with one id are as good as impossible."""
REMAPPED: Final = range(64_001, 65_501)
"""Where an engine remaps users, its containers know 65,536 of them; there two tenants may meet, by chance."""


def job_uid(tenant_id: TenantId, among: range = PLENTY) -> int:
    """The user and group of this tenant's jobs, the same on every node that has as many."""
    number = int.from_bytes(hashlib.sha256(tenant_id.encode()).digest()[:8])
    return among[number % len(among)]
