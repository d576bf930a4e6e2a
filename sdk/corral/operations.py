"""Every call as a method, defined once for the blocking client and for the asynchronous one."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import wraps
from typing import Any, Generic, ParamSpec, Self, TypeVar, overload

from corral.call import Call
from corral.calls import accounts, batches, budgets, cluster, identity, ledger, quotas
from corral.calls import audit as audit_calls
from corral.calls import images as image_calls
from corral.calls import jobs as job_calls
from corral.calls import secrets as secret_calls
from corral.calls import webhooks as webhook_calls
from corral.contract import Page

P = ParamSpec("P")
T = TypeVar("T")


class Sender(ABC):
    """Sends calls and waits."""

    @abstractmethod
    def send(self, call: Call[T]) -> T:
        """Send it, again where that may help, and return what the answer says."""

    @abstractmethod
    def each(self, call: Call[Page[T]]) -> Iterator[T]:
        """Every item of a list, page after page, as they are asked for."""


class AsyncSender(ABC):
    """Sends calls, awaited."""

    @abstractmethod
    async def send(self, call: Call[T]) -> T:
        """Send it, again where that may help, and return what the answer says."""

    @abstractmethod
    def each(self, call: Call[Page[T]]) -> AsyncIterator[T]:
        """Every item of a list, page after page, as they are asked for."""


class Operation(Generic[P, T]):
    """A call as a method: it blocks on a `Sender` and is awaited on an `AsyncSender`."""

    def __init__(self, build: Callable[P, Call[T]]) -> None:
        self._build = build
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: Sender, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, instance: AsyncSender, owner: type) -> Callable[P, Awaitable[T]]: ...
    def __get__(self, instance: Sender | AsyncSender | None, owner: type) -> Any:
        if instance is None:
            return self

        @wraps(self._build)
        def send(*args: P.args, **kwargs: P.kwargs) -> Any:
            return instance.send(self._build(*args, **kwargs))

        return send


class Listing(Generic[P, T]):
    """A call for a list as a method: an iterator over all of its pages."""

    def __init__(self, build: Callable[P, Call[Page[T]]]) -> None:
        self._build = build
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: Sender, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, instance: AsyncSender, owner: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, instance: Sender | AsyncSender | None, owner: type) -> Any:
        if instance is None:
            return self

        @wraps(self._build)
        def each(*args: P.args, **kwargs: P.kwargs) -> Any:
            return instance.each(self._build(*args, **kwargs))

        return each


class Operations:
    """What a client can do, beside what takes more than one request."""

    submit_spec = Operation(job_calls.submit_spec)
    jobs = Listing(job_calls.jobs)
    job_view = Operation(job_calls.job_view)
    attempts = Listing(job_calls.attempts)
    events = Listing(job_calls.events)
    artifact_views = Listing(job_calls.artifact_views)
    job_ledger = Listing(job_calls.job_ledger)
    cancel = Operation(job_calls.cancel)
    hold = Operation(job_calls.hold)
    release = Operation(job_calls.release)
    log_part = Operation(job_calls.log_part)
    upload_tar = Operation(job_calls.upload_tar)
    submit_templated = Operation(batches.submit_templated)
    submit_many = Operation(batches.submit_many)
    array = Operation(batches.array)
    cancel_array = Operation(batches.cancel_array)
    templates = Listing(batches.templates)
    template = Operation(batches.template)
    set_template = Operation(batches.set_template)
    delete_template = Operation(batches.delete_template)

    whoami = Operation(identity.whoami)
    keys = Listing(identity.keys)
    create_key = Operation(identity.create_key)
    revoke_key = Operation(identity.revoke_key)
    tenants = Listing(accounts.tenants)
    tenant = Operation(accounts.tenant)
    create_tenant = Operation(accounts.create_tenant)
    suspend_tenant = Operation(accounts.suspend_tenant)
    resume_tenant = Operation(accounts.resume_tenant)
    tenant_keys = Listing(identity.tenant_keys)
    create_tenant_key = Operation(identity.create_tenant_key)
    revoke_tenant_key = Operation(identity.revoke_tenant_key)

    usage = Operation(ledger.usage)
    receipt = Operation(ledger.receipt)
    signing_keys = Operation(ledger.signing_keys)
    seals = Listing(ledger.seals)
    seal = Operation(ledger.seal)
    adjust = Operation(ledger.adjust)
    adjustments = Listing(ledger.adjustments)
    verify_ledger = Listing(ledger.verify_ledger)
    prices = Listing(ledger.prices)
    set_price = Operation(ledger.set_price)
    take_back_price = Operation(ledger.take_back_price)

    quota = Operation(quotas.quota)
    tenant_quota = Operation(quotas.tenant_quota)
    set_tenant_quota = Operation(quotas.set_tenant_quota)
    preview_quota = Operation(quotas.preview_quota)
    quota_requests = Listing(quotas.quota_requests)
    quota_request = Operation(quotas.quota_request)
    ask_for_quota = Operation(quotas.ask_for_quota)
    withdraw_quota_request = Operation(quotas.withdraw_quota_request)
    grant_quota_request = Operation(quotas.grant_quota_request)
    refuse_quota_request = Operation(quotas.refuse_quota_request)

    budget = Operation(budgets.budget)
    set_tenant_budget = Operation(budgets.set_tenant_budget)
    top_up_budget = Operation(budgets.top_up_budget)

    secrets = Listing(secret_calls.secrets)
    set_secret = Operation(secret_calls.set_secret)
    delete_secret = Operation(secret_calls.delete_secret)

    images = Listing(image_calls.images)
    image = Operation(image_calls.image)
    add_image = Operation(image_calls.add_image)
    retire_image = Operation(image_calls.retire_image)
    block_image = Operation(image_calls.block_image)
    unblock_image = Operation(image_calls.unblock_image)
    allow_image = Operation(image_calls.allow_image)
    check_image = Operation(image_calls.check_image)
    signature_rules = Listing(image_calls.signature_rules)
    add_signature_rule = Operation(image_calls.add_signature_rule)
    remove_signature_rule = Operation(image_calls.remove_signature_rule)
    gpus = Listing(cluster.gpus)
    nodes = Listing(cluster.nodes)
    node = Operation(cluster.node)
    drain_node = Operation(cluster.drain_node)
    resume_node = Operation(cluster.resume_node)
    lose_node = Operation(cluster.lose_node)
    create_join_token = Operation(cluster.create_join_token)
    revoke_node = Operation(cluster.revoke_node)
    join_tokens = Listing(cluster.join_tokens)
    revoke_join_token = Operation(cluster.revoke_join_token)

    members = Listing(identity.members)
    member = Operation(identity.member)
    invite_member = Operation(identity.invite_member)
    set_member_role = Operation(identity.set_member_role)
    remove_member = Operation(identity.remove_member)

    audit = Listing(audit_calls.audit)
    verify_audit = Listing(audit_calls.verify_audit)

    webhooks = Listing(webhook_calls.webhooks)
    create_webhook = Operation(webhook_calls.create_webhook)
    webhook = Operation(webhook_calls.webhook)
    change_webhook = Operation(webhook_calls.change_webhook)
    delete_webhook = Operation(webhook_calls.delete_webhook)
    test_webhook = Operation(webhook_calls.test_webhook)
    rotate_webhook_secret = Operation(webhook_calls.rotate_webhook_secret)
    deliveries = Listing(webhook_calls.deliveries)
    redeliver = Operation(webhook_calls.redeliver)
