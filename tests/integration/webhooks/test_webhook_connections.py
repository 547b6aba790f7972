"""The connection goes to the very address that was judged, and to a receiver that can prove its name."""

from __future__ import annotations

import datetime as dt
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from app.webhooks.backoff import Answer
from app.webhooks.lookup import Lookup
from app.webhooks.targets import Targets
from app.webhooks.transport import AiohttpTransport
from tests.support.receiver import Listener

NAME = "receiver.test"


def loopback(host: str, port: int) -> tuple[str, ...]:
    return ("127.0.0.1",)


def certificate(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """(the receiver's context, a client's context that trusts it)."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    now = dt.datetime.now(dt.UTC)
    built = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(1).not_valid_before(now - dt.timedelta(1)).not_valid_after(now + dt.timedelta(1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    pem = built.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = folder / "receiver.pem"
    file.write_bytes(private + pem)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(file)
    return server, ssl.create_default_context(cadata=pem.decode())


def send(url: str, allow: tuple[str, ...], lookup: Lookup, tls: ssl.SSLContext | None = None) -> Answer:
    import asyncio

    async def once() -> Answer:
        targets = Targets(allow, lookup)
        async with AiohttpTransport(targets, tls or ssl.create_default_context(), timeout=5, threads=2) as transport:
            return await transport.post(url, {"webhook-id": "evt_1"}, b"{}")

    return asyncio.run(once())


def test_a_named_https_receiver_is_reached_at_the_looked_up_address(tmp_path: Path, receive):
    server, client = certificate(tmp_path)
    receiver = receive(tls=server)
    answer = send(receiver.url(host=NAME, scheme="https"), (NAME,), loopback, client)
    assert answer == Answer(200)
    assert receiver.received[0].headers["host"] == f"{NAME}:{receiver.port}"


def test_a_receiver_that_cannot_prove_its_name_gets_nothing(tmp_path: Path, receive):
    server, client = certificate(tmp_path)
    receiver = receive(tls=server)
    untrusted = send(receiver.url(host=NAME, scheme="https"), (NAME,), loopback)
    misnamed = send(receiver.url(host="other.test", scheme="https"), ("other.test",), loopback, client)
    assert (untrusted.error, misnamed.error) == ("tls", "tls")
    assert receiver.received == []


def test_a_name_that_now_leads_inside_is_not_connected_to():
    assert send("https://rebind.test:8443/", (), loopback) == Answer(error="target_forbidden")


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "127.1", "0x7f000001", "[::ffff:127.0.0.1]", "localhost"])
def test_an_internal_target_sees_no_connection_even_if_it_slipped_into_the_record(internal: Listener, host: str):
    assert send(f"https://{host}:{internal.port}/", (), loopback) == Answer(error="target_forbidden")
    assert internal.connections() == 0


def test_proxies_of_the_environment_are_not_used(receive, internal: Listener, monkeypatch: pytest.MonkeyPatch):
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(variable, f"http://127.0.0.1:{internal.port}")
    receiver = receive()
    assert send(receiver.url(host=NAME), (NAME,), loopback) == Answer(200)
    assert internal.connections() == 0


def test_what_keeps_a_receiver_from_answering_is_told_apart(internal: Listener):
    def nowhere(host: str, port: int) -> tuple[str, ...]:
        raise OSError("no such name")

    internal.close()
    assert send(f"http://{NAME}:{internal.port}/", (NAME,), nowhere).error == "dns"
    assert send(f"http://{NAME}:{internal.port}/", (NAME,), loopback).error == "connect"
