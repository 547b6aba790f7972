"""API keys: shown once, kept hashed, remembered briefly, revoked."""

from __future__ import annotations

import fakeredis
import pytest

from app.errors import AuthenticationFailed
from app.services.keys import DEV_KEY, KeyStore


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def client() -> fakeredis.FakeRedis:
    return fakeredis.FakeRedis(decode_responses=True)


def test_a_key_is_found_by_its_secret_and_kept_without_it(client: fakeredis.FakeRedis) -> None:
    keys = KeyStore(client)
    key, secret = keys.create("acme", name="shop", scope="admin", tier_cap="flex")
    assert secret.startswith("ph_")
    assert len(secret) == 46  # 256 bits in url-safe base64 behind the prefix
    assert keys.authenticate(secret) == key
    assert (key.tenant, key.is_admin, key.tier_cap) == ("acme", True, "flex")
    everything = str([client.hgetall(k) for k in client.keys("*")]) + str(client.keys("*"))
    assert secret not in everything
    assert secret.removeprefix("ph_") not in everything


@pytest.mark.parametrize("secret", ["", "ph_wrong", "x" * 400, "ключ"])
def test_an_unknown_secret_is_refused(client: fakeredis.FakeRedis, secret: str) -> None:
    with pytest.raises(AuthenticationFailed):
        KeyStore(client, "dev").authenticate(secret)
    assert client.keys("*") == []


def test_a_revoked_key_is_remembered_for_five_seconds_at_most(client: fakeredis.FakeRedis) -> None:
    clock = Clock()
    serving, operator = KeyStore(client, monotonic=clock), KeyStore(client)
    key, secret = operator.create("acme")
    assert serving.authenticate(secret) == key
    assert (operator.revoke(key.id), operator.revoke(key.id)) == (True, False)
    clock.now = 5.1
    with pytest.raises(AuthenticationFailed):
        serving.authenticate(secret)
    assert operator.list() == []


def test_keys_are_listed_oldest_first(client: fakeredis.FakeRedis) -> None:
    keys = KeyStore(client)
    made = [keys.create(tenant)[0] for tenant in "ab"]
    assert sorted(k.id for k in keys.list()) == sorted(k.id for k in made)


def test_the_development_key_needs_no_record_and_is_off_by_default(client: fakeredis.FakeRedis) -> None:
    assert KeyStore(client, "secret").authenticate("secret") is DEV_KEY
    with pytest.raises(AuthenticationFailed):
        KeyStore(client).authenticate("secret")


def test_a_key_keeps_its_limits_and_models(client: fakeredis.FakeRedis) -> None:
    made, secret = KeyStore(client).create("acme", requests_per_minute=60, tokens_per_minute=9000, models=("a", "b"))
    found = KeyStore(client).authenticate(secret)
    assert found == made
    assert (found.requests_per_minute, found.tokens_per_minute, found.models) == (60, 9000, ("a", "b"))
    assert (found.may_use("a"), found.may_use("c")) == (True, False)


def test_a_record_of_an_older_version_has_no_limits(client: fakeredis.FakeRedis) -> None:
    _, secret = KeyStore(client).create("acme")
    (record,) = client.keys("ph:apikey:*")
    client.hdel(record, "requests_per_minute", "tokens_per_minute", "models", "previous")
    found = KeyStore(client).authenticate(secret)
    assert (found.requests_per_minute, found.tokens_per_minute, found.models) == (None, None, ())


def test_a_rotated_key_has_a_new_secret_and_the_same_rights(client: fakeredis.FakeRedis) -> None:
    keys = KeyStore(client)
    key, old = keys.create("acme", tokens_per_minute=5)
    new = keys.rotate(key.id)
    assert new
    assert keys.authenticate(new) == key
    with pytest.raises(AuthenticationFailed):
        KeyStore(client).authenticate(old)
    assert [k.id for k in keys.list()] == [key.id]
    assert keys.rotate("key_unknown") is None


def test_the_secret_before_works_for_its_grace_and_only_the_last_one(client: fakeredis.FakeRedis) -> None:
    keys = KeyStore(client)
    key, first = keys.create("acme")
    second = keys.rotate(key.id, grace_seconds=3600)
    assert second
    assert KeyStore(client).authenticate(first) == KeyStore(client).authenticate(second) == key
    assert sorted(client.ttl(record) for record in client.keys("ph:apikey:*")) == [-1, 3600]
    third = keys.rotate(key.id, grace_seconds=3600)
    assert third
    with pytest.raises(AuthenticationFailed):
        KeyStore(client).authenticate(first)
    assert KeyStore(client).authenticate(second) == KeyStore(client).authenticate(third) == key


def test_revoking_ends_the_secret_before_as_well(client: fakeredis.FakeRedis) -> None:
    keys = KeyStore(client)
    key, first = keys.create("acme")
    second = keys.rotate(key.id, grace_seconds=3600)
    assert second
    assert keys.revoke(key.id)
    for secret in (first, second):
        with pytest.raises(AuthenticationFailed):
            KeyStore(client).authenticate(secret)
    assert client.keys("*") == []
