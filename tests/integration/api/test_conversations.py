"""Going on from an earlier response, listing, input items and deletion, by the official SDK."""

from __future__ import annotations

import json

import httpx
import openai
import pytest

from tests.integration.api.conftest import House
from tests.support.api_process import DEV_KEY

MODEL = "m"


def asked(house: House, response_id: str) -> list[dict[str, str]]:
    """The messages that the engine got for a response."""
    redis = house.redis.client()
    request = redis.hget(f"ph:gen:{redis.hget(f'ph:job:{response_id}', 'gen')}", "request")
    return json.loads(str(request))["messages"]


def get(house: House, path: str, key: str = DEV_KEY) -> httpx.Response:
    return httpx.get(f"{house.api.url}{path}", headers={"Authorization": f"Bearer {key}"}, timeout=30)


def test_a_conversation_goes_on_and_its_instructions_do_not(house: House, sdk: openai.OpenAI) -> None:
    first = sdk.responses.create(model=MODEL, instructions="be brief", input="one say=blue")
    second = sdk.responses.create(
        model=MODEL, instructions="be long", input="two say=green", previous_response_id=first.id
    )
    third = sdk.responses.create(model=MODEL, input="three", previous_response_id=second.id)
    assert second.previous_response_id == first.id
    roles_and_texts = [(m["role"], m["content"]) for m in asked(house, third.id)]
    assert roles_and_texts == [
        ("user", "one say=blue"),
        ("assistant", first.output_text),
        ("user", "two say=green"),
        ("assistant", second.output_text),
        ("user", "three"),
    ]
    assert asked(house, second.id)[0] == {"role": "system", "content": "be long"}


def test_an_unknown_or_foreign_previous_response_is_not_found(house: House, sdk: openai.OpenAI) -> None:
    first = sdk.responses.create(model=MODEL, input="mine")
    stranger = house.sdk(house.new_key("stranger"))
    for client, previous in ((sdk, "resp_" + "0" * 32), (stranger, first.id)):
        with pytest.raises(openai.NotFoundError) as caught:
            client.responses.create(model=MODEL, input="x", previous_response_id=previous)
        assert caught.value.param == "previous_response_id"


def test_a_deleted_response_is_gone(house: House, sdk: openai.OpenAI) -> None:
    made = sdk.responses.create(model=MODEL, input="short lived")
    sdk.responses.delete(made.id)
    with pytest.raises(openai.NotFoundError):
        sdk.responses.retrieve(made.id)
    with pytest.raises(openai.NotFoundError):
        sdk.responses.delete(made.id)


def test_input_items_are_what_was_sent(sdk: openai.OpenAI) -> None:
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
    made = sdk.responses.create(model=MODEL, input=turns)  # type: ignore[arg-type]
    listed = list(sdk.responses.input_items.list(made.id, order="asc", limit=2))
    assert [item.content[0].text for item in listed] == ["a", "b", "c"]  # type: ignore[union-attr]
    assert [item.role for item in sdk.responses.input_items.list(made.id)] == ["user", "assistant", "user"]  # type: ignore[union-attr]


def test_a_tenants_responses_are_listed_newest_first_and_filtered(house: House) -> None:
    key = house.new_key("lister")
    client = house.sdk(key)
    made = [client.responses.create(model=MODEL, input=f"n{n}", metadata={"odd": str(n % 2)}).id for n in range(4)]
    first = get(house, "/v1/responses?limit=3", key).json()
    assert ([r["id"] for r in first["data"]], first["has_more"]) == (made[:0:-1], True)
    rest = get(house, f"/v1/responses?limit=3&after={first['last_id']}", key).json()
    assert ([r["id"] for r in rest["data"]], rest["has_more"]) == (made[:1], False)
    odd = get(house, "/v1/responses?metadata[odd]=1&status=completed", key).json()
    assert [r["id"] for r in odd["data"]] == [made[3], made[1]]
    assert get(house, "/v1/responses?status=failed", key).json()["data"] == []


@pytest.mark.parametrize("query", ["limit=0", "limit=x", "status=done", "colour=red", "after=resp_x"])
def test_a_bad_filter_is_refused_by_name(house: House, query: str) -> None:
    answer = get(house, f"/v1/responses?{query}")
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == query.split("=", maxsplit=1)[0]
