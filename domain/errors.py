"""Everything Corral can refuse.

CorralError
├── NotFound               no such thing, or it is another tenant's
├── Unauthenticated        no key, or one that does not count
├── Forbidden              the key's role does not reach that far
│   ├── NotInvited          a person whom nobody has given a place
│   ├── LoginOver           a login that is unknown, over or used
│   ├── LoginRefused        the provider does not vouch for the person
│   ├── BeyondScope         the key was made for other things
│   ├── BeyondKey           the key was made for other images or levels
│   ├── BeyondOwnRights     a key is asked for with more than its maker's rights
│   └── TenantSuspended     the tenant, or one above it, is suspended: it may read and cancel, no more
├── Invalid                the request contradicts itself or the catalogue
│   └── BatchRefused        one of several jobs is refused, and so are all
├── Conflict
│   ├── InvalidTransition  the state does not admit the event
│   ├── StaleFence         a newer attempt holds the right to write
│   ├── StaleLeader        a newer leader has taken over
│   ├── QuotaChanged       the quota is not the one that the change was made from
│   ├── GuaranteesExceedLimit  more would be guaranteed than there may be
│   ├── HeldByPurse        a job that waits until there is more to spend
│   ├── KeyReused          one idempotency key, two different bodies
│   ├── ImageBlocked       an admin has blocked the image's digest
│   ├── ShownOnce          a replay of an answer that held a secret
│   ├── LogGap             a piece of a log that begins beyond what is held
│   ├── NoSealingKey       nothing secret can be kept: the server has no key for it
│   ├── CannotUnseal       what was sealed does not open
│   ├── NoSigningKey       nothing can be signed: the server has no key for it
│   └── SecretGone         a secret that a job names was deleted
├── Away                   something that Corral needs does not answer: asking again may help
│   ├── SealingAway        the program that wraps keys
│   └── StorageAway        where inputs, logs and artifacts lie
└── Limit
    ├── QuotaExceeded      the tenant has no room left
    │   └── BeyondQuota    a rule of the quota excludes it, however long it waits
    ├── RateLimited        asked too often; it says when to ask again
    ├── TooLarge           a body or a file over its cap
    └── TooBusy            more waits than can be served soon
"""

from collections.abc import Mapping


class CorralError(Exception):
    """A refusal: `code` is stable, the message is for people and holds nothing secret."""

    code = "error"

    def __init__(self, message: str, help: str = "") -> None:
        super().__init__(message)
        self.help = help
        """What would help, or nothing."""


class NotFound(CorralError):
    code = "not_found"

    def __init__(self, kind: str) -> None:
        super().__init__(f"there is no such {kind}", f"check the id; a {kind} of another tenant is not shown")


class Unauthenticated(CorralError):
    code = "unauthenticated"

    def __init__(self) -> None:
        super().__init__(
            "a valid key is required",
            "send 'Authorization: Bearer <key>'; at the command line: corral login, or CORRAL_KEY",
        )


class Forbidden(CorralError):
    code = "forbidden"

    def __init__(self, needed: str) -> None:
        super().__init__(f"this needs the role {needed}", "ask an admin for a key with that role")


class NotInvited(Forbidden):
    code = "not_invited"

    def __init__(self) -> None:
        CorralError.__init__(
            self,
            "nobody has given you a place here",
            "ask an admin to invite the address that your provider vouches for",
        )


class LoginOver(Forbidden):
    code = "login_over"

    def __init__(self) -> None:
        CorralError.__init__(self, "this login is not known, is over, or was used already", "begin again")


class LoginRefused(Forbidden):
    code = "login_refused"

    def __init__(self, why: str) -> None:
        CorralError.__init__(self, f"the login is refused: {why}", "begin again, or ask your admin")


class BeyondScope(Forbidden):
    code = "scope_missing"

    def __init__(self, needed: str) -> None:
        CorralError.__init__(self, f"this key lacks the scope {needed}", "mint a key that has it, or use another")


class BeyondKey(Forbidden):
    code = "beyond_key"

    def __init__(self, what: str, allowed: str) -> None:
        CorralError.__init__(self, f"this key does not allow {what}", f"it allows {allowed}")


class BeyondOwnRights(Forbidden):
    code = "beyond_own_rights"

    def __init__(self, what: str) -> None:
        CorralError.__init__(self, f"a key cannot be made with {what}", "no key gives more than the one that makes it")


class TenantSuspended(Forbidden):
    code = "tenant_suspended"

    def __init__(self) -> None:
        CorralError.__init__(self, "the tenant is suspended", "it may read and cancel; an admin can resume it")


class Invalid(CorralError):
    code = "invalid"


class BatchRefused(Invalid):
    code = "batch_refused"

    def __init__(self, refused: Mapping[int, CorralError]) -> None:
        super().__init__(f"{len(refused)} of the jobs are refused, so none is queued", "see errors for which and why")
        self.refused = refused
        """By place in the batch, from 0."""


class Conflict(CorralError):
    code = "conflict"


class InvalidTransition(Conflict):
    code = "invalid_transition"

    def __init__(self, kind: str, state: str, event: str) -> None:
        super().__init__(f"{event} does not fit {'an' if kind[0] in 'aeiou' else 'a'} {kind} that is {state}")


class StaleFence(Conflict):
    code = "stale_fence"

    def __init__(self, attempt_id: str, fence: int) -> None:
        super().__init__(f"fence {fence} no longer counts for {attempt_id}", "remove what is held for it")


class StaleLeader(Conflict):
    code = "stale_leader"

    def __init__(self, epoch: int) -> None:
        super().__init__(f"epoch {epoch} is over")


class QuotaChanged(Conflict):
    code = "quota_changed"

    def __init__(self, version: int) -> None:
        super().__init__(f"the quota is at version {version} now", "read it again, and make the change to that one")


class GuaranteesExceedLimit(Conflict):
    code = "guarantees_exceed_limit"

    def __init__(self, what: str) -> None:
        super().__init__(
            f"of {what}, more would be guaranteed below a tenant than that tenant may use",
            "raise the limit of the tenant above, or guarantee less",
        )


class HeldByPurse(Conflict):
    code = "held_by_purse"

    def __init__(self, why: str) -> None:
        super().__init__(f"the job cannot be released: {why}", "it is put back by itself when there is more to spend")


class KeyReused(Conflict):
    code = "idempotency_key_reused"

    def __init__(self) -> None:
        super().__init__("this Idempotency-Key was used with another request", "use a new key for a new request")


class ImageBlocked(Conflict):
    code = "image_blocked"

    def __init__(self, reason: str) -> None:
        super().__init__(f"the image is blocked: {reason}", "an admin can unblock it")


class ShownOnce(Conflict):
    code = "secret_shown_once"

    def __init__(self) -> None:
        super().__init__(
            "this request was answered already, and its answer held a secret that is not kept",
            "revoke what it made, and ask again with a new Idempotency-Key",
        )


class LogGap(Conflict):
    code = "log_gap"

    def __init__(self, size_bytes: int) -> None:
        super().__init__(f"the log is held up to byte {size_bytes}", "send from there")
        self.size_bytes = size_bytes


class NoSealingKey(Conflict):
    code = "no_sealing_key"

    def __init__(self) -> None:
        super().__init__(
            "this server has no key under which secrets are kept",
            "an admin sets CORRAL_SECRETS_KEY_FILE (corrald keys new secrets makes one) or CORRAL_SECRETS_KMS_COMMAND",
        )


class CannotUnseal(Conflict):
    code = "cannot_unseal"

    def __init__(self, message: str) -> None:
        super().__init__(message, "set the secret again; an admin can bring back the master key that it was kept under")


class SecretGone(Conflict):
    code = "secret_gone"

    def __init__(self, name: str) -> None:
        super().__init__(f"the secret {name} was deleted", "set it again: corral secrets set NAME")


class Away(CorralError):
    code = "unavailable"


class SealingAway(Away):
    code = "sealing_away"

    def __init__(self) -> None:
        super().__init__("the program that wraps the keys of secrets does not do so now", "try again")


class StorageAway(Away):
    code = "storage_away"

    def __init__(self) -> None:
        super().__init__("the storage of inputs, logs and artifacts does not answer", "try again")


class NoSigningKey(Conflict):
    code = "no_signing_key"

    def __init__(self) -> None:
        super().__init__(
            "the server has no signing key", "its operator makes one and names it: CORRAL_SIGNING_KEY_FILE"
        )


class Limit(CorralError):
    code = "limit"


class QuotaExceeded(Limit):
    code = "quota_exceeded"

    def __init__(self, what: str, asked: int, left: int) -> None:
        super().__init__(f"asked for {asked} {what}, {left} left in the quota", "wait for jobs to end, or ask an admin")


class BeyondQuota(QuotaExceeded):
    def __init__(self, message: str) -> None:
        CorralError.__init__(self, message, "ask for less, or ask an admin for more; for GPUs: corral quota ask")


class TooLarge(Limit):
    code = "too_large"


class RateLimited(Limit):
    code = "rate_limited"

    def __init__(self, name: str, limit: str, retry_after_seconds: int) -> None:
        super().__init__(f"too many requests: the limit of {name} is {limit}", f"ask again in {retry_after_seconds} s")
        self.retry_after_seconds = retry_after_seconds


class TooBusy(Limit):
    code = "too_busy"

    def __init__(self, message: str) -> None:
        super().__init__(message, "send it again a little later; send many jobs with POST /v1/jobs/batch")
