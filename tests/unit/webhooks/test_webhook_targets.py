"""A webhook URL is judged by the number that it leads to, however it is spelled."""

from __future__ import annotations

import pytest

from app.errors import WebhookUrlForbidden
from app.settings import ConfigurationError
from app.webhooks.addresses import refusal
from app.webhooks.lookup import Lookup, SystemLookup
from app.webhooks.targets import Targets, authority

PUBLIC = ("93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946")


def no_names(host: str, port: int) -> tuple[str, ...]:
    raise OSError("no such name")


def answering(*answers: tuple[str, ...]) -> Lookup:
    """A resolver that gives each answer once, the last one for ever."""
    left = list(answers)

    def lookup(host: str, port: int) -> tuple[str, ...]:
        return left.pop(0) if len(left) > 1 else left[0]

    return lookup


@pytest.mark.parametrize(
    "host",
    [
        "2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "127.1", "127.0.1", "0", "017700000001",
        "127.0.0.1", "0.0.0.0", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.0.1", "169.254.169.254",
        "100.64.0.1", "100.127.255.255", "192.0.0.8", "198.18.0.1", "224.0.0.1", "239.255.255.250", "240.0.0.1",
        "255.255.255.255", "192.88.99.1",
        "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:169.254.169.254]", "[::127.0.0.1]",
        "[64:ff9b::a9fe:a9fe]", "[64:ff9b::7f00:1]", "[64:ff9b:1::a00:1]", "[2002:7f00:1::]", "[2002:a9fe:a9fe::1]",
        "[2001:0:4136:e378:8000:63bf:80ff:fffe]", "[2001:db8::1]", "[fe80::1]", "[fe80::1%25eth0]", "[fec0::1]",
        "[fc00::1]", "[fd00:ec2::254]", "[ff02::1]", "[3fff::1]", "[100::1]", "[4000::1]",
        "[2606:4700::5efe:7f00:1]", "[2606:4700::200:5efe:a9fe:a9fe]",
        "localhost", "LOCALHOST", "api.localhost", "localhost.", "example.com.", "93.184.216.34.", "127%2e0.0.1",
    ],
)  # fmt: skip
def test_no_spelling_of_an_internal_address_passes(host: str):
    with pytest.raises(WebhookUrlForbidden) as refused:
        Targets((), no_names).check_url(f"https://{host}/hook")
    assert refused.value.param == "webhook.url"
    assert refused.value.http_status == 400


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/", "ftp://example.com/", "file:///etc/passwd", "gopher://example.com:443/",
        "//example.com/", "example.com/hook", "", "https://", "https:///hook", "https://example.com:6379/", "https://example.com:80/",
        "https://example.com:0/", "https://example.com:99999/", "https://user@example.com/", "https://u:p@example.com/",
        "https://@example.com/", "https://example.com@127.0.0.1/", "https://127.0.0.1\\@example.com/",
        "https://example.com/\r\nhost: internal", "https://exam\tple.com/", "https://example.com/a b", " https://example.com/",
        "https://example.com\n", "https://exa mple.com/", "https://\uff11\uff12\uff17.0.0.1/", "https://[::1/", "https://a..b/",
        "https://-a.com/", "https://example.com/" + "x" * 2048, "https://" + "a" * 64 + ".com/",
    ],
)  # fmt: skip
def test_only_plain_https_urls_on_the_two_ports_pass(url: str):
    with pytest.raises(WebhookUrlForbidden):
        Targets((), no_names).check_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://93.184.216.34/hook", "https://93.184.216.34:8443/", "https://[2606:2800:220:1:248:1893:25c8:1946]/h?a=b@c",
        "https://[::ffff:93.184.216.34]/", "https://hooks.example.com/x?y=%20#z", "https://xn--bcher-kva.example:443/",
        "https://HOOKS_1.example.com",
    ],
)  # fmt: skip
def test_public_targets_pass(url: str):
    Targets((), answering(PUBLIC)).check_url(url)


def test_a_public_name_with_one_internal_address_is_refused():
    targets = Targets((), answering(("93.184.216.34", "10.0.0.5")))
    with pytest.raises(WebhookUrlForbidden):
        targets.check_url("https://mixed.example/")


def test_a_name_that_leads_elsewhere_by_the_time_of_sending_is_refused_then():
    targets = Targets((), answering(("93.184.216.34",), ("127.0.0.1",)))
    target = targets.check_url("https://rebind.example/")
    with pytest.raises(WebhookUrlForbidden):
        targets.resolve(target.host, target.port)


def test_a_literal_is_judged_again_when_it_is_resolved():
    with pytest.raises(WebhookUrlForbidden):
        Targets((), no_names).resolve("127.0.0.1", 443)


def test_a_failing_resolver_refuses_no_work_but_gives_no_address_to_send_to():
    targets = Targets((), no_names)
    target = targets.check_url("https://unknown.example/")
    with pytest.raises(OSError, match="no such name"):
        targets.resolve(target.host, target.port)


def test_a_name_without_addresses_cannot_be_sent_to():
    with pytest.raises(OSError, match="no address"):
        Targets((), answering(())).resolve("empty.example", 443)


@pytest.mark.parametrize(
    ("allowed", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:9000/hook"),
        ("127.0.0.1:9000", "http://127.0.0.1:9000/hook"),
        ("Receiver.internal:8080", "http://receiver.INTERNAL:8080/"),
        ("::1", "http://[::1]:9000/"),
        ("[::1]", "https://[0:0:0:0:0:0:0:1]/"),
        ("[::1]:9000", "http://[::1]:9000/"),
    ],
)
def test_hosts_that_the_config_names_may_receive_over_http_on_any_port(allowed: str, url: str):
    targets = Targets([allowed], answering(("10.0.0.9",)))
    target = targets.check_url(url)
    assert targets.resolve(target.host, target.port)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9001/", "http://localhost:9000/", "http://127.1:9000/", "http://2130706433:9000/",
        "http://user@127.0.0.1:9000/", "gopher://127.0.0.1:9000/",
    ],
)  # fmt: skip
def test_an_allowed_host_allows_nothing_but_itself(url: str):
    with pytest.raises(WebhookUrlForbidden):
        Targets(["127.0.0.1:9000"], no_names).check_url(url)


def test_a_mistaken_allow_entry_is_refused_at_start():
    with pytest.raises(ConfigurationError, match="allow_hosts"):
        Targets(["http://receiver:8080"], no_names)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_numbers_are_public(address: str):
    assert refusal(address) is None


def test_the_system_resolver_is_judged_by_what_it_answers():
    targets = Targets((), SystemLookup())
    with pytest.raises(WebhookUrlForbidden):
        targets.resolve("localhost", 443)


def test_the_authority_names_the_receiver_and_nothing_secret():
    assert authority("https://hooks.example.com/path?token=s") == "hooks.example.com:443"
    assert authority("https://[::1/") == "unreadable"
