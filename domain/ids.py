"""Names of things, as types that cannot be swapped."""

from typing import NewType

TenantId = NewType("TenantId", str)
KeyId = NewType("KeyId", str)
MemberId = NewType("MemberId", str)
NodeId = NewType("NodeId", str)
GpuId = NewType("GpuId", str)
JobId = NewType("JobId", str)
AttemptId = NewType("AttemptId", str)
AllocationId = NewType("AllocationId", str)
Fence = NewType("Fence", int)
"""Grows with every assignment of a job; who writes with an older one is refused."""
Instant = NewType("Instant", int)
"""Microseconds since the epoch, UTC."""
