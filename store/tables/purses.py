"""What may be spent, and what is held of it for attempts that run."""

from sqlalchemy import CheckConstraint, Index
from sqlmodel import Field

from store.base import Row, big


class Purse(Row, table=True):
    """What an owner may use of something in a period, what is held for attempts that run, and what was used."""

    __tablename__ = "purse"
    __table_args__ = (
        CheckConstraint("held >= 0", name="held_not_negative"),
        CheckConstraint("bound >= 0", name="bound_not_negative"),
    )

    owner_id: str = Field(primary_key=True)
    """A tenant, which pays for all below it too, or a key."""
    unit: str = Field(primary_key=True)
    """`gpus_milli`, `gpu_time`, `money_micro` (`domain.budget.Unit`)."""
    period: str = Field(primary_key=True)
    """Empty for the total, `2026-01` for a month; `monthly` is the rule from which a month takes its bound."""
    tenant_id: str = Field(foreign_key="tenant.id", index=True)
    """The owner, or the owner's tenant."""
    bound: int = big()
    held: int = big(default=0)
    spent: int = big(default=0)
    before: int = big(default=0)
    """What the ledger summed up to when the purse was opened; `spent` counts from there."""
    warned: int = 0
    """The highest threshold of which its owner was warned, in percent."""


class Hold(Row, table=True):
    """What is held in a purse for an attempt, and not used yet."""

    __tablename__ = "hold"
    __table_args__ = (
        CheckConstraint("amount >= 0", name="amount_not_negative"),
        Index("ix_hold_purse", "owner_id", "unit", "period"),
    )

    attempt_id: str = Field(primary_key=True, foreign_key="attempt.id")
    owner_id: str = Field(primary_key=True)
    unit: str = Field(primary_key=True)
    period: str = Field(primary_key=True)
    amount: int = big()
