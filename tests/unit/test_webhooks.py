"""Where webhooks may go, when they are tried again, and how a receiver knows them."""

import base64
import hashlib
import hmac
import ipaddress
import json

import pytest
from corral.webhooks import NotGenuine, verify

from domain.errors import Invalid
from domain.webhooks import ATTEMPTS_MAX, WebhookRules, is_public, retry_delay_us

RULES = WebhookRules()

NOT_PUBLIC = [
    "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
    "100.100.100.200", "192.0.0.192", "192.0.2.1", "198.18.0.1", "203.0.113.1", "224.0.0.1", "239.255.255.250",
    "240.0.0.1", "255.255.255.255", "168.63.129.16", "::", "::1", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1",
    "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::1",
    "2002:7f00:1::", "2002:808:808::1", "2001:0:1::1", "2001:db8::1", "fec0::1",
]  # fmt: skip


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_addresses_that_not_everybody_may_reach(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111"])
def test_public_addresses(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


BAD_URLS = [
    "http://example.com/", "ftp://example.com/", "file:///etc/passwd", "gopher://example.com", "https://",
    "https://user@example.com/", "https://user:pass@example.com/", "https://example.com:22/", "https://example.com:0/",
    "https://example.com:99999/", "https://127.0.0.1/", "https://[::1]/", "https://[::ffff:127.0.0.1]/",
    "https://169.254.169.254/latest/meta-data", "https://exa mple.com/", "https://ex\u0430mple.com/",
    "https://example.com\\@evil/", "https://example.com/#x", "https://example.com/\r\nX: y", "javascript:alert(1)",
    "//example.com/", "example.com", "https://example.com/" + "a" * 3000, "https://-a/", "https://a..-/",
    "https://127.1/", "https://2130706433/", "https://0x7f000001/", "https://0177.0.0.1/", "https://0x7f.1/", "https://0/",
    "https://1.1.1/", "https://a..b/", "https://[v1.x]/", "https://" + "a" * 64 + ".org/", "https://example.0x/",
]  # fmt: skip


@pytest.mark.parametrize("url", BAD_URLS)
def test_urls_that_are_refused(url: str) -> None:
    with pytest.raises(Invalid):
        RULES.target(url)


def test_a_url_is_taken_apart() -> None:
    target = RULES.target("https://Example.com:8443/hook?a=b")
    assert (target.host, target.port, target.path, target.is_tls) == ("example.com", 8443, "/hook?a=b", True)
    inside = WebhookRules.of("8080", "10.1.0.0/16", allow_http=True)
    assert inside.target("http://10.1.2.3:8080").path == "/"
    with pytest.raises(Invalid):
        inside.target("http://10.2.2.3:8080")


def test_it_is_tried_again_later_and_later_for_more_than_a_day_and_then_no_more() -> None:
    delays = [retry_delay_us(n, 500) for n in range(1, ATTEMPTS_MAX)]
    known = [delay for delay in delays if delay is not None]
    assert known == sorted(known)
    assert known[0] == 5_000_000
    assert 24 * 3_600_000_000 < sum(known) < 48 * 3_600_000_000
    assert retry_delay_us(ATTEMPTS_MAX, 500) is None
    assert (retry_delay_us(1, 0), retry_delay_us(1, 1000)) == (4_000_000, 6_000_000)


KEY = b"k" * 32
SECRET = "whsec_" + base64.b64encode(KEY).decode()
BODY = json.dumps({"id": "evt_1"}).encode()


def signed(key: bytes = KEY, stamp: int = 1000, body: bytes = BODY) -> dict[str, str]:
    digest = hmac.new(key, f"evt_1.{stamp}.".encode() + body, hashlib.sha256).digest()
    return {
        "Webhook-Id": "evt_1",
        "Webhook-Timestamp": str(stamp),
        "Webhook-Signature": "v1,AAAA v1," + base64.b64encode(digest).decode(),
    }


def test_a_genuine_delivery_is_known() -> None:
    assert verify(signed(), BODY, SECRET, now=1100) == {"id": "evt_1"}


@pytest.mark.parametrize(
    ("headers", "body", "now"),
    [
        (signed(key=b"x" * 32), BODY, 1000),
        (signed(), BODY + b" ", 1000),
        (signed(), BODY, 2000),
        (signed(), BODY, 0),
        (signed() | {"Webhook-Id": "evt_2"}, BODY, 1000),
        (signed() | {"Webhook-Timestamp": "1001"}, BODY, 1000),
        (signed() | {"Webhook-Timestamp": "soon"}, BODY, 1000),
        (signed() | {"Webhook-Signature": "v2,x \u00e9"}, BODY, 1000),
        ({}, BODY, 1000),
    ],
)
def test_a_forged_or_old_one_is_not(headers: dict[str, str], body: bytes, now: int) -> None:
    with pytest.raises(NotGenuine):
        verify(headers, body, SECRET, now=now)
