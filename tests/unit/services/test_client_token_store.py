"""Client tokens: kept hashed, no more than their key, gone with it and with their time."""

from __future__ import annotations

import fakeredis
import pytest

from app.errors import AuthenticationFailed
from app.services.api_key import ApiKey
from app.services.client_tokens import ClientTokens
from app.services.keys import DEV_KEY, KeyStore
from tests.support.caches import Clock


@pytest.fixture
def client() -> fakeredis.FakeRedis:
    return fakeredis.FakeRedis(decode_responses=True)


def made(client: fakeredis.FakeRedis, **rights: object) -> tuple[KeyStore, ApiKey]:
    keys = KeyStore(client)
    return keys, keys.create("acme", **rights)[0]  # type: ignore[arg-type]


def test_a_token_is_its_key_narrowed_to_one_end_user(client: fakeredis.FakeRedis) -> None:
    keys, key = made(client, scope="admin", tier_cap="flex", requests_per_minute=9, models=("a", "b"))
    tokens = ClientTokens(client, keys)
    token = tokens.create(key, models=("a",), user="alice", expires_in=60)
    found = tokens.authenticate(token.secret)
    assert token.secret.startswith("ek_")
    assert (found.id, found.tenant, found.scope, found.tier_cap) == (key.id, "acme", "use", "flex")
    assert (found.models, found.owner, found.requests_per_minute) == (("a",), "alice", 9)
    everything = str([client.get(k) for k in client.keys("ph:client_token:*")]) + str(client.keys("*"))
    assert token.secret.removeprefix("ek_") not in everything


def test_tokens_without_a_user_are_each_on_their_own(client: fakeredis.FakeRedis) -> None:
    keys, key = made(client)
    tokens = ClientTokens(client, keys)
    owners = [tokens.authenticate(tokens.create(key, models=(), user="", expires_in=60).secret).owner for _ in "ab"]
    assert all(owners)
    assert len(set(owners)) == 2


def test_a_token_without_models_has_those_of_its_key(client: fakeredis.FakeRedis) -> None:
    keys, key = made(client, models=("a",))
    tokens = ClientTokens(client, keys)
    assert tokens.authenticate(tokens.create(key, models=(), user="u", expires_in=60).secret).models == ("a",)


def test_a_token_whose_models_its_key_may_not_use_is_worth_nothing(client: fakeredis.FakeRedis) -> None:
    keys, key = made(client, models=("a",))
    tokens = ClientTokens(client, keys)
    with pytest.raises(AuthenticationFailed):
        tokens.authenticate(tokens.create(key, models=("b",), user="u", expires_in=60).secret)


def test_a_token_ends_with_its_time_also_where_it_is_remembered(client: fakeredis.FakeRedis) -> None:
    keys, key = made(client)
    clock = Clock()
    tokens = ClientTokens(client, keys, clock)
    token = tokens.create(key, models=(), user="u", expires_in=2)
    assert tokens.authenticate(token.secret).owner == "u"
    (record,) = client.keys("ph:client_token:*")
    assert 0 < client.pttl(record) <= 2000
    client.delete(record)
    clock.advance(2.1)
    with pytest.raises(AuthenticationFailed):
        tokens.authenticate(token.secret)


def test_a_token_ends_with_its_key_within_five_seconds(client: fakeredis.FakeRedis) -> None:
    keys, key = made(client)
    clock = Clock()
    tokens = ClientTokens(client, keys, clock)
    token = tokens.create(key, models=(), user="u", expires_in=600)
    tokens.authenticate(token.secret)
    keys.revoke(key.id)
    clock.advance(5.1)
    with pytest.raises(AuthenticationFailed):
        tokens.authenticate(token.secret)


def test_a_token_outlives_the_rotation_of_its_key(client: fakeredis.FakeRedis) -> None:
    keys, key = made(client)
    token = ClientTokens(client, keys).create(key, models=(), user="u", expires_in=600)
    keys.rotate(key.id)
    assert ClientTokens(client, keys).authenticate(token.secret).id == key.id


def test_the_development_keys_tokens_work_only_where_it_does(client: fakeredis.FakeRedis) -> None:
    keys = KeyStore(client, "secret")
    token = ClientTokens(client, keys).create(DEV_KEY, models=(), user="u", expires_in=600)
    assert ClientTokens(client, keys).authenticate(token.secret).id == DEV_KEY.id
    with pytest.raises(AuthenticationFailed):
        ClientTokens(client, KeyStore(client)).authenticate(token.secret)


@pytest.mark.parametrize("secret", ["ek_", "ek_wrong", "ph_x"])
def test_an_unknown_token_is_refused(client: fakeredis.FakeRedis, secret: str) -> None:
    with pytest.raises(AuthenticationFailed):
        ClientTokens(client, KeyStore(client)).authenticate(secret)
