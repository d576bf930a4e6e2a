"""Silence: measured from when an answered heartbeat was sent, and reason enough to start nothing new."""

import threading

import pytest

from worker.contact import LONGEST_WAIT_S, BackOff, Contact, Leaving


def test_who_was_never_answered_is_silent() -> None:
    assert Contact(60_000_000).is_silent(0)


def test_silence_counts_from_the_sending() -> None:
    contact = Contact(60_000_000)
    contact.acknowledged(1_000_000)
    assert not contact.is_silent(61_000_000)
    assert contact.is_silent(61_000_001)


def test_a_late_answer_to_an_old_heartbeat_renews_nothing() -> None:
    contact = Contact(60_000_000)
    contact.acknowledged(50_000_000)
    contact.acknowledged(10_000_000)
    assert contact.acked_us == 50_000_000


def test_a_pause_ends_when_the_agent_leaves() -> None:
    leaving = threading.Event()
    leaving.set()
    with pytest.raises(Leaving):
        BackOff(leaving).pause()
    assert LONGEST_WAIT_S <= 10
