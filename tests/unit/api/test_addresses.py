"""Who is believed about where a request comes from."""

from typing import Any

import pytest

from api.addresses import client_address, networks

TRUSTED = networks("10.0.0.0/8, fd00::/8")


def a_scope(client: str | None, *forwarded: str) -> dict[str, Any]:
    headers = [(b"x-forwarded-for", each.encode()) for each in forwarded]
    return {"client": None if client is None else (client, 1), "headers": headers}


@pytest.mark.parametrize(
    ("client", "forwarded", "address"),
    [
        ("203.0.113.9", ["1.2.3.4"], "203.0.113.9"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["1.2.3.4"], "1.2.3.4"),
        ("::ffff:10.0.0.1", ["1.2.3.4"], "1.2.3.4"),
        ("10.0.0.1", ["6.6.6.6, 1.2.3.4"], "1.2.3.4"),
        ("10.0.0.1", ["6.6.6.6", "1.2.3.4, 10.0.0.2"], "1.2.3.4"),
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ("10.0.0.1", ["1.2.3.4, <script>"], "10.0.0.1"),
        ("fd00::1", ["2001:db8::5"], "2001:db8::5"),
        (None, ["1.2.3.4"], ""),
        ("testclient", ["1.2.3.4"], ""),
    ],
)
def test_what_a_trusted_proxy_says_last_counts_and_nothing_before_it(
    client: str | None, forwarded: list[str], address: str
) -> None:
    assert client_address(a_scope(client, *forwarded), TRUSTED) == address


def test_nobody_is_trusted_unless_it_is_said() -> None:
    assert client_address(a_scope("10.0.0.1", "1.2.3.4"), networks("")) == "10.0.0.1"
    with pytest.raises(ValueError, match="does not appear"):
        networks("proxy.example")
