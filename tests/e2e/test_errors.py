"""Every error has one shape, whatever went wrong, and the official client raises the class that fits."""

from __future__ import annotations

import http.client
import json
from urllib.parse import urlsplit

import openai
import pytest

from app.jobs.job import Kind, new_job_id

RESPONSES = "/v1/responses"
BODY = {"model": "paced", "input": "x"}
TOO_LARGE = json.dumps({**BODY, "input": "x" * 1_100_000}).encode()
ERRORS = {
    "bad json": ("POST", RESPONSES, b"{nonsense", {}, 400, "invalid_request_error"),
    "no object": ("POST", RESPONSES, b"[1]", {}, 400, "invalid_request_error"),
    "not a number": ("POST", RESPONSES, b'{"model": "paced", "input": "x", "temperature": NaN}', {}, 400, None),
    "not utf-8": ("POST", RESPONSES, b'{"input": "\xff"}', {}, 400, None),
    "half a character": ("POST", RESPONSES, b'{"model": "paced", "input": "\\ud800"}', {}, 400, None),
    "wrong type": ("POST", RESPONSES, b"model=paced", {"Content_Type": "application/x-www-form-urlencoded"}, 415, None),
    "no model": ("POST", RESPONSES, {"input": "x"}, {}, 400, "invalid_request_error"),
    "unknown model": ("POST", RESPONSES, {**BODY, "model": "nobody"}, {}, 404, "not_found_error"),
    "unknown field": ("POST", RESPONSES, {**BODY, "inptu": "x"}, {}, 400, "invalid_request_error"),
    "wrong value": ("POST", RESPONSES, {**BODY, "temperature": "hot"}, {}, 400, "invalid_request_error"),
    "unknown route": ("GET", "/v1/nowhere", None, {}, 404, "not_found_error"),
    "unknown page": ("GET", "/index.html", None, {}, 404, "not_found_error"),
    "wrong method": ("PUT", RESPONSES, BODY, {}, 405, "invalid_request_error"),
    "too large": ("POST", RESPONSES, TOO_LARGE, {}, 413, "invalid_request_error"),
    "bad key": ("POST", RESPONSES, BODY, {"Authorization": "Bearer wrong"}, 401, "authentication_error"),
    "no bearer": ("POST", RESPONSES, BODY, {"Authorization": "Basic eDp5"}, 401, "authentication_error"),
}


def assert_error(answer, status: int, kind: str | None = None) -> dict:
    assert answer.status == status, answer
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"]
    assert set(answer.json) == {"error"}
    error = answer.json["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    assert isinstance(error["code"], str)
    assert kind is None or error["type"] == kind
    for leak in (b"Traceback", b"<html", b"<!doctype", b"object at 0x", b'File "', b"ph_test_key"):
        assert leak not in answer.body
    return dict(error)


@pytest.mark.parametrize("name", ERRORS)
def test_every_mistake_gets_an_error_of_the_one_shape(stack, name):
    method, path, body, headers, status, kind = ERRORS[name]
    key = None if "Authorization" in headers else "ph_test_key"
    assert_error(stack.ask(method, path, body, key=key, **headers), status, kind)


def test_a_body_without_a_length_is_limited_too(stack):
    connection = http.client.HTTPConnection(urlsplit(stack.url).netloc, timeout=20)
    chunks = (TOO_LARGE[at : at + 65_536] for at in range(0, len(TOO_LARGE), 65_536))
    headers = {"Authorization": "Bearer ph_test_key", "Content-Type": "application/json"}
    try:
        connection.request("POST", RESPONSES, chunks, headers, encode_chunked=True)
        response = connection.getresponse()
        assert response.status == 413
        assert json.loads(response.read())["error"]["code"] == "body_too_large"
    finally:
        connection.close()


def test_an_error_of_ours_shows_nothing_of_the_inside(stack):
    """A record that cannot be read, as after a fault of ours."""
    job_id = new_job_id(Kind.RESPONSE)
    stack.redis().set(f"ph:job:{job_id}", "no hash at all", ex=60)
    answer = stack.ask("GET", f"{RESPONSES}/{job_id}")
    error = assert_error(answer, 500, "server_error")
    assert "WRONGTYPE" not in error["message"]
    assert answer.headers["x-request-id"] in stack.text()  # the log has the details under the same id


def test_a_wrong_method_names_the_right_ones(stack):
    answer = stack.ask("PUT", RESPONSES, BODY)
    assert "POST" in answer.headers["allow"]


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda c: c.responses.create(model="nobody", input="x"), openai.NotFoundError),
        (lambda c: c.responses.create(model="paced", input="x", temperature=9), openai.BadRequestError),
        (lambda c: c.responses.retrieve("resp_" + "0" * 32), openai.NotFoundError),
        (lambda c: c.responses.create(model="paced", input="y" * 1_100_000), openai.APIStatusError),
        (lambda c: c.with_options(api_key="wrong").models.list(), openai.AuthenticationError),
        (lambda c: c.chat.completions.create(model="paced", messages=[]), openai.BadRequestError),
    ],
    ids=["model", "value", "job", "size", "key", "messages"],
)
def test_the_client_raises_the_class_that_fits_with_the_message(client, call, kind):
    with pytest.raises(kind) as caught:
        call(client)
    assert caught.value.body["message"]
    assert caught.value.body["message"] in str(caught.value)
    assert caught.value.code


def test_a_failed_job_raises_with_its_own_code(client):
    with pytest.raises(openai.APIStatusError) as caught:
        client.responses.create(model="paced", input="{{oom}}")
    assert (caught.value.status_code, caught.value.code) == (500, "engine_out_of_memory")
    assert caught.value.response.headers["x-should-retry"] == "false"
