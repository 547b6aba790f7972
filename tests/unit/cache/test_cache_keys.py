"""Two requests share a key only if they get the same answer."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.keys import CLAIM_PREFIX, Scope, cache_key, canonical_json
from tests.support.caches import REQUEST, key

CHANGES: dict[str, Any] = {
    "max_tokens": 17, "stop": ["\n"], "seed": 1, "top_p": 0.9, "n": 2, "logprobs": True, "tool_choice": "none",
    "response_format": {"type": "json_object"}, "tools": [{"type": "function", "function": {"name": "f"}}],
    "logit_bias": {"5": 1}, "temperature": 0.5, "a_field_that_nobody_knows": 1, "seed_as_null": None,
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_every_parameter_makes_another_key(name: str) -> None:
    changed = {**REQUEST, "params": {**REQUEST["params"], name: CHANGES[name]}}
    assert key(request=changed) != key()


@pytest.mark.parametrize("content", ["hi ", " hi", "Hi", "hi\n", ""])
def test_the_text_counts_to_the_last_space(content: str) -> None:
    assert key(request={**REQUEST, "messages": [{"role": "user", "content": content}]}) != key()


def test_a_system_text_and_the_order_of_messages_count() -> None:
    user, system = REQUEST["messages"][0], {"role": "system", "content": "be brief"}
    both = key(request={**REQUEST, "messages": [system, user]})
    turned = key(request={**REQUEST, "messages": [user, system]})
    assert len({key(), both, turned}) == 3


def test_owner_and_weights_count() -> None:
    base = {"tenant": "t", "model": "m", "revision": "r", "quantization": "q"}
    keys = {cache_key(**base, request=REQUEST).digest}
    keys |= {cache_key(**{**base, name: "other"}, request=REQUEST).digest for name in base}
    assert len(keys) == 5


def test_parts_cannot_be_shifted_between_fields() -> None:
    first = cache_key(tenant="a", model="bc", revision="d", quantization="", request=REQUEST)
    second = cache_key(tenant="ab", model="c", revision="", quantization="d", request=REQUEST)
    assert first.digest != second.digest


def test_reordered_members_at_any_depth_are_the_same_request() -> None:
    deep = {"params": {"b": {"x": 1, "y": [{"p": 1, "q": 2}]}, "a": 0}, "messages": []}
    turned = {"messages": [], "params": {"a": 0, "b": {"y": [{"q": 2, "p": 1}], "x": 1}}}
    assert key(request=deep) == key(request=turned)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(_JSON)
def test_the_canonical_form_says_the_same_value(value: Any) -> None:
    assert json.loads(canonical_json(value)) == value


@given(_JSON, _JSON)
def test_equal_forms_are_equal_values(one: Any, other: Any) -> None:
    assert canonical_json(one) == canonical_json(copy.deepcopy(one))
    if canonical_json(one) == canonical_json(other):
        assert one == other


def test_values_that_python_takes_for_equal_stay_apart() -> None:
    forms = {canonical_json(v) for v in (0, 0.0, False, None, "", [], {}, "0")}
    assert len(forms) == 8


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_without_json_form_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        key(request={"x": value})


def test_half_a_surrogate_pair_has_a_key_too() -> None:
    assert key(request={"x": "\ud800"}) != key(request={"x": "\ud801"})


def test_names_say_neither_tenant_nor_prompt() -> None:
    name = key("acme").name()
    prefix, owner, model, digest = name.split(":")
    assert (prefix, model, len(owner), len(digest)) == ("phc", "m", 16, 64)
    assert "acme" not in name
    assert key("acme").name(CLAIM_PREFIX) == name.replace("phc:", "phcr:", 1)


def test_no_model_name_acts_as_a_separator_or_wildcard() -> None:
    assert Scope(model="a*[b]?:c").pattern() == "phc:*:a%2A%5Bb%5D%3F%3Ac:*"
    assert key(model="a:b").name().count(":") == 3


@pytest.mark.parametrize(
    ("scope", "covered"),
    [(Scope(), "tm tn um"), (Scope(tenant="t"), "tm tn"), (Scope(model="m"), "tm um"), (Scope("t", "m"), "tm")],
)
def test_scopes_cover_what_they_name(scope: Scope, covered: str) -> None:
    assert [pair for pair in ("tm", "tn", "um") if scope.covers(key(pair[0], pair[1]))] == covered.split()
