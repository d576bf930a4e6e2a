"""The tables. Times are microseconds since the epoch, UTC; money is micro-units; shares are thousandths of a GPU."""

from store.tables.accounts import Tenant
from store.tables.audit import AuditChain, AuditEntry
from store.tables.books import Allocation, LedgerEntry, Price
from store.tables.cluster import Gpu, JoinToken, Node
from store.tables.files import Artifact, StoredInput
from store.tables.identity import ApiKey, Login, Member
from store.tables.images import Image, ImageBlock, ImageCheck, ImageTenant, ImageWish, SignatureRule
from store.tables.jobs import Attempt, Job, JobInput
from store.tables.purses import Hold, Purse
from store.tables.quotas import Quota, QuotaRequest
from store.tables.seals import Seal, SealHead
from store.tables.secrets import Secret
from store.tables.service import Event, Idempotency, Leader
from store.tables.webhooks import Delivery, Webhook
from store.tables.workflows import JobArray, JobDependency, JobTemplate

__all__ = [
    "Allocation",
    "ApiKey",
    "Artifact",
    "Attempt",
    "AuditChain",
    "AuditEntry",
    "Delivery",
    "Event",
    "Gpu",
    "Hold",
    "Idempotency",
    "Image",
    "ImageBlock",
    "ImageCheck",
    "ImageTenant",
    "ImageWish",
    "Job",
    "JobArray",
    "JobDependency",
    "JobInput",
    "JobTemplate",
    "JoinToken",
    "Leader",
    "LedgerEntry",
    "Login",
    "Member",
    "Node",
    "Price",
    "Purse",
    "Quota",
    "QuotaRequest",
    "Seal",
    "SealHead",
    "Secret",
    "SignatureRule",
    "StoredInput",
    "Tenant",
    "Webhook",
]
