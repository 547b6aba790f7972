"""What happens below the application: slow senders, what is no HTTP, a process that is asked to stop."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Iterator

import httpx
import pytest

from tests.integration.api.conftest import House, build, tear_down
from tests.support.api_process import DEV_KEY
from tests.support.redis_process import RedisProcess
from tests.support.waiting import wait_until

CHAT = "/v1/chat/completions"


BRISK = {
    "POSTHOUSE_API__SLOW_SENDER_SECONDS": "1",
    "POSTHOUSE_API__GRACEFUL_SECONDS": "5",
    "POSTHOUSE_API__KEEP_ALIVE_SECONDS": "2",
}


@pytest.fixture
def brisk_house(own_redis: RedisProcess) -> Iterator[House]:
    """Short patience, so that its end can be seen; may be stopped."""
    found = build(own_redis, **BRISK)
    yield found
    tear_down(found)


@pytest.fixture(scope="module")
def impatient_house(shared_redis: RedisProcess) -> Iterator[House]:
    """The same, for all tests that leave it running."""
    found = build(shared_redis, **BRISK)
    yield found
    tear_down(found)


def raw(house: House, text: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", house.api.port), timeout=10) as connection:
        connection.sendall(text)
        return read_all(connection)


def read_all(connection: socket.socket) -> bytes:
    chunks = []
    while chunk := connection.recv(65_536):
        chunks.append(chunk)
    return b"".join(chunks)


def trickle(house: House, head: bytes, *, limit: float = 20) -> bytes:
    """Send a byte now and then until the server has closed the connection; what it said until then."""
    with socket.create_connection(("127.0.0.1", house.api.port), timeout=0.3) as connection:
        connection.sendall(head)
        answer = b""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            try:
                connection.sendall(b"x")
                chunk = connection.recv(65_536)
            except TimeoutError:
                continue
            except ConnectionError:
                return answer
            if not chunk:
                return answer
            answer += chunk
    raise AssertionError("the connection stayed open")


def test_a_trickled_body_is_cut_off(impatient_house: House) -> None:
    head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {DEV_KEY}\r\nContent-Type: application/json\r\n"
    answer = trickle(impatient_house, f"{head}Content-Length: 1000\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert json.loads(answer.split(b"\r\n\r\n", 1)[1])["error"]["code"] == "request_timeout"


def test_a_trickled_head_is_cut_off(impatient_house: House) -> None:
    assert trickle(impatient_house, b"GET /healthz HTTP/1.1\r\nHost: ") == b""


def test_a_body_that_nobody_reads_cannot_be_trickled_for_ever(impatient_house: House) -> None:
    head = b"POST /v1/responses HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    assert trickle(impatient_house, head).startswith(b"HTTP/1.1 401 ")


def test_many_headers_are_refused(house: House) -> None:
    head = b"GET / HTTP/1.1\r\nHost: x\r\n" + b"".join(b"x-%d: y\r\n" % n for n in range(100)) + b"\r\n"
    assert raw(house, head).startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nbad header\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nx: " + b"y" * 20_000 + b"\r\n\r\n", b"431"),
        (b"GET /" + b"y" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", b"431"),
    ],
)
def test_what_is_no_http_gets_the_same_shape(house: House, text: bytes, status: bytes) -> None:
    answer = raw(house, text)
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert b"x-request-id: req_" in answer
    assert set(json.loads(answer.split(b"\r\n\r\n", 1)[1])["error"]) == {"message", "type", "param", "code"}


MALFORMED = [b"zz\r\n{}\r\n0\r\n\r\n", b"-2\r\n{}\r\n0\r\n\r\n", b"2\r\n{}XX0\r\n\r\n", b"2;\x01\r\n{}\r\n0\r\n\r\n",
             b"2\r\n{}\r\n0\r\nbad trailer\r\n\r\n"]  # fmt: skip


@pytest.mark.parametrize("body", MALFORMED)
def test_a_body_in_broken_chunks_is_a_bad_request_and_what_follows_is_not_served(house: House, body: bytes) -> None:
    head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {DEV_KEY}\r\nContent-Type: application/json\r\n"
    next_one = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    answer = raw(house, f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + body + next_one)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert json.loads(answer.split(b"\r\n\r\n", 1)[1])["error"]["code"] == "invalid_request"


@pytest.mark.parametrize("framing", ["Content-Length: 500", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize("reset", [True, False])
def test_who_hangs_up_while_sending_leaves_no_fault_in_the_log(house: House, framing: str, reset: bool) -> None:
    path = f"/v1/responses?{framing[:3]}{reset}"
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {DEV_KEY}\r\nContent-Type: application/json\r\n"
    gone = len(house.api.log().split('"status": 499'))
    with socket.create_connection(("127.0.0.1", house.api.port), timeout=10) as connection:
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.sendall(f"{head}{framing}\r\n\r\n".encode() + (b"f0\r\n{" if "chunked" in framing else b"{"))
    wait_until(lambda: len(house.api.log().split('"status": 499')) > gone, what="the API notices")
    assert "request_failed" not in house.api.log()


@pytest.mark.parametrize("name", ["SCRIPT_NAME", "PATH_INFO", "X-Forwarded-Ssl"])
def test_no_header_of_a_caller_moves_the_path(house: House, name: str) -> None:
    text = (
        f"GET /healthz HTTP/1.1\r\nHost: x\r\n{name}: /healthz\r\nX-Forwarded-Proto: https\r\nConnection: close\r\n\r\n"
    )
    assert raw(house, text.encode()).startswith(b"HTTP/1.1 200 ")


def test_streams_end_within_the_grace_period_and_their_jobs_go_on(brisk_house: House) -> None:
    sdk = brisk_house.sdk()
    short = sdk.responses.create(model="m", input="tokens=10 pace=0.1", stream=True)
    next(short)
    long = sdk.responses.create(model="m", input="tokens=2 hold_at=1", stream=True)
    job_id = next(long).response.id
    chat = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "tokens=2 hold_at=1"}]}
    with brisk_house.api.http() as http, http.stream("POST", CHAT, json=chat) as other:
        lines = other.iter_lines()
        wait_until(lambda: '"role"' in next(lines), what="the chat begins")
        brisk_house.api.terminate()
        assert list(short)[-1].type == "response.completed"
        assert list(long)[-1].type == "error"
        frames = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
        assert (frames[-1]["error"]["type"], "[DONE]" in str(frames)) == ("server_error", False)
    assert brisk_house.api.process.wait(15) == 0
    assert brisk_house.redis.client().hget(f"ph:job:{job_id}", "status") == ""


def test_a_process_that_stops_says_so_before_it_is_gone(brisk_house: House) -> None:
    with brisk_house.api.http() as http:
        held = brisk_house.sdk().responses.create(model="m", input="hold", stream=True)
        next(held)
        assert http.get("/readyz").status_code == 200
        brisk_house.api.terminate()
        with pytest.raises(httpx.TransportError):
            wait_until(lambda: http.get("/readyz").status_code == 200 and False, what="never", limit=10)
    held.close()
