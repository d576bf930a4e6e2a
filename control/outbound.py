"""One POST to an address that a tenant chose: looked up here, checked, and connected to as it was checked.

The name is resolved once, and what is connected to is an address that was found allowed: no second look-up could give
another. Redirects are not followed, an answer is read up to a bound, and all of it ends by a deadline.
"""

import http.client
import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence

from domain.errors import Invalid
from domain.webhooks import Address, Target, WebhookRules

ANSWER_BYTES_MAX = 64 * 1024
NO_PUBLIC_ADDRESS = "the host has no public address"
"""Said of unknown names too: which names the inside knows is not for tenants to find out."""
Resolver = Callable[[str, int], Sequence[str]]


class NotReached(Exception):
    """Nothing was sent, or no answer came; the message is for the webhook's owner."""


def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses of a host, as the system knows them."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    rules: WebhookRules,
    seconds: float,
    resolver: Resolver = resolve,
    context: ssl.SSLContext | None = None,
) -> int:
    """Send it; the status of the answer.

    Raises:
        NotReached: the address may not be reached, or does not answer in time.
    """
    try:
        target = rules.target(url)
    except Invalid as refusal:
        raise NotReached(str(refusal)) from None
    address = _allowed(target, rules, resolver)
    try:
        raw = socket.create_connection((str(address), target.port), timeout=seconds)
    except OSError as error:
        raise NotReached(f"no connection: {error.strerror or type(error).__name__}") from None
    deadline = threading.Timer(seconds, _cut, [raw])
    deadline.daemon = True
    deadline.start()
    try:
        return _exchanged(raw, target, body, headers, context)
    except ssl.SSLCertVerificationError as error:
        raise NotReached(f"its certificate is not valid: {error.verify_message}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NotReached(f"no answer: {type(error).__name__}") from None
    finally:
        deadline.cancel()
        raw.close()


def _exchanged(
    raw: socket.socket, target: Target, body: bytes, headers: Mapping[str, str], context: ssl.SSLContext | None
) -> int:
    connection = http.client.HTTPConnection(target.host, target.port)
    if target.is_tls:
        connection.sock = (context or ssl.create_default_context()).wrap_socket(raw, server_hostname=target.host)
    else:
        connection.sock = raw
    try:
        connection.request("POST", target.path, body, dict(headers))
        answer = connection.getresponse()
        answer.read(ANSWER_BYTES_MAX)
        return answer.status
    finally:
        connection.close()


def _allowed(target: Target, rules: WebhookRules, resolver: Resolver) -> Address:
    """An address of the host. If one of several may not be reached, none is: such a name is not to be trusted."""
    try:
        found = [ipaddress.ip_address(each.partition("%")[0]) for each in resolver(target.host, target.port)]
    except (OSError, ValueError, UnicodeError):
        found = []
    if not found or not all(rules.may_reach(each) for each in found):
        raise NotReached(NO_PUBLIC_ADDRESS)
    return found[0]


def _cut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it is closed already
