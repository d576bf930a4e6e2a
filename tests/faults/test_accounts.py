"""Money, keys, arrays and dependencies while processes are killed: in the end every account tells the same."""

import csv
import io
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from corral import Client, JobSpec
from corral.budgets import BudgetSpec, TopUp
from corral.identity import KeySpec
from corral.ledger import AdjustmentSpec
from corral.prices import PriceSpec
from corral.receipts import verify_receipt
from corral.signed import public_key
from purse_parts import assert_purses_agree
from redis_parts import eventually
from sqlmodel import col, select
from system_parts import System

from store.audit_check import all_checks
from store.engine import reading
from store.signing import new_signing_key
from store.tables import Hold, Job, JobArray, JobDependency, Purse

ACTS = 14
PATIENCE_SECONDS = 120
VICTIMS = ("api", "control", "worker", "valkey")


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    folder = tmp_path_factory.mktemp("system")
    folder.chmod(0o711)
    folder.parent.chmod(0o711)
    new_signing_key(folder / "signing.key")
    more = {"CORRAL_SIGNING_KEY_FILE": str(folder / "signing.key")}
    running = System(folder, f"sqlite:///{folder / 'corral.db'}", service_env=more)
    yield running
    running.close()


def a_spec(script: str, **more: object) -> JobSpec:
    fields = {
        "image": "host",
        "command": ["sh", "-c", script],
        "resources": {"gpus": 1, "memory": "16MiB", "output": "1MiB"},
        "time_limit": "2m",
        "grace": "1s",
        "retry": {"limit": 0, "on": ["platform"]},
    }
    return JobSpec.model_validate({**fields, **more})


class Office:
    """A tenant with a budget, and what people do there at once."""

    def __init__(self, system: System) -> None:
        self.tenant_id = system.tenant_id
        system.admin.set_tenant_budget(self.tenant_id, BudgetSpec(total_micro=10**12))
        bounded = KeySpec(name="bounded", gpus=2, money_micro=10**12)
        self.tenant, self.admin, self.child = (
            Client(system.url, key, patience_seconds=PATIENCE_SECONDS)
            for key in (
                system.tenant.settings.key,
                system.admin.settings.key,
                system.admin.create_tenant_key(self.tenant_id, bounded).key,
            )
        )

    def act(self, number: int) -> list[str]:
        """One of many things; the jobs that it was told were made."""
        chance, kind = random.Random(number), number % 7
        if kind < 2:
            return [(self.tenant, self.child)[kind].submit(a_spec(f"sleep {chance.random():.2f}")).id]
        if kind == 2:
            job = self.tenant.submit(a_spec("sleep 30"))
            job.cancel()
            return [job.id]
        if kind == 3:
            jobs = [a_spec("exit 3", name="a"), a_spec("true", after=["#a"])]
            jobs.append(a_spec("true", after=[{"job": "#a", "on": "failure"}]))
            return self.tenant.submit_many(jobs).ids
        if kind == 4:
            job = self.tenant.submit(a_spec("sleep 0.2", array={"count": 4, "most_running": 2}))
            if chance.random() < 0.5 and job.view.array is not None:
                self.tenant.cancel_array(job.view.array.id)
            return [job.id]
        if kind == 5:
            self.admin.top_up_budget(self.tenant_id, TopUp(amount_micro=1000, reason="more"))
            self.admin.adjust(AdjustmentSpec(tenant_id=self.tenant_id, amount_micro=-700, reason="a test"))
        if kind == 6:
            self.admin.set_price(PriceSpec(model="*", micro_per_gpu_hour=chance.randrange(10**9, 9 * 10**9)))
        return []

    def close(self) -> None:
        for client in (self.tenant, self.child, self.admin):
            client.close()


@pytest.mark.slow
@pytest.mark.timeout(420)
def test_whatever_is_killed_no_job_is_lost_and_all_accounts_agree(system: System) -> None:
    office, over = Office(system), threading.Event()

    def wreck() -> None:
        for victim in VICTIMS:
            if over.wait(1.5):
                return
            system.restart(victim)

    with ThreadPoolExecutor(7) as pool:
        wrecking = pool.submit(wreck)
        made = [job_id for ids in pool.map(office.act, range(ACTS)) for job_id in ids]
        over.set()
        wrecking.result()
    eventually(lambda: all(job.ended_at for job in office.tenant.jobs()), PATIENCE_SECONDS)
    system.settle()
    with reading(system.engine) as session:
        job_ids = set(session.exec(select(Job.id).where(Job.tenant_id == office.tenant_id)))
        assert_purses_agree(session)
        assert not session.exec(select(Hold)).all()
        assert not session.exec(select(Purse).where(Purse.held != 0)).all()
        assert not session.exec(select(JobDependency).where(col(JobDependency.is_open))).all()
        assert {(each.unfinished, each.running_used) for each in session.exec(select(JobArray))} == {(0, 0)}
        assert [each for each in all_checks(session) if each.flaw] == []
    assert len(set(made)) == len(made)
    assert set(made) <= job_ids
    _assert_every_account_tells_the_same(office, job_ids)
    office.close()
    assert not any("Traceback" in system.log_text(name) for name in ("api", "control", "worker"))


def _assert_every_account_tells_the_same(office: Office, job_ids: set[str]) -> None:
    keys = {key.key_id: public_key(key.public_key) for key in office.tenant.signing_keys().keys}
    receipts = [office.tenant.receipt(job_id) for job_id in sorted(job_ids)]
    for receipt in receipts:
        verify_receipt(receipt.model_dump(), keys)
        assert sum(entry.cost_micro for entry in office.tenant.job_ledger(receipt.job_id)) == receipt.cost_micro
    adjusted = sum(entry.cost_micro for entry in office.admin.adjustments(tenant_id=office.tenant_id))
    usage = office.tenant.usage()
    assert usage.total_cost_micro == sum(receipt.cost_micro for receipt in receipts) + adjusted
    assert usage.total_gpu_us_milli == sum(receipt.gpu_us_milli for receipt in receipts)
    (row,) = csv.DictReader(io.StringIO(b"".join(office.tenant.usage_export("csv")).decode()))
    assert int(row["cost_micro"]) == usage.total_cost_micro
    focus = csv.DictReader(io.StringIO(b"".join(office.tenant.usage_export("focus")).decode()))
    assert sum(round(float(line["BilledCost"]) * 10**6) for line in focus) == usage.total_cost_micro
