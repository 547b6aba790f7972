"""Responses with the official SDK: background, poll, wait, stream, resume, cancel."""

from __future__ import annotations

import openai
import pytest

from tests.integration.api.conftest import House
from tests.support.waiting import wait_until


def finished(sdk: openai.OpenAI, job_id: str):
    return wait_until(
        lambda: (r := sdk.responses.retrieve(job_id)).status not in {"queued", "in_progress"} and r, what="the end"
    )


def test_a_background_job_is_queued_at_once_and_polled_to_its_end(sdk: openai.OpenAI) -> None:
    made = sdk.responses.create(
        model="m", input="tokens=3", background=True, metadata={"ticket": "7"}, temperature=0.5, max_output_tokens=9
    )
    assert (made.status, made.background, made.output) == ("queued", True, [])
    assert made.model_extra["queue"]["position"] >= 0
    done = finished(sdk, made.id)
    assert (done.status, done.output_text, done.metadata) == ("completed", "t0 t1 t2", {"ticket": "7"})
    assert (done.temperature, done.max_output_tokens, done.error) == (0.5, 9, None)
    assert (done.usage.input_tokens, done.usage.output_tokens, done.usage.total_tokens) == (5, 7, 12)
    assert done.completed_at >= done.created_at


def test_a_call_without_background_waits_for_the_answer(sdk: openai.OpenAI) -> None:
    done = sdk.responses.create(model="m", input=[{"role": "user", "content": "tokens=2 pace=0.05"}])
    assert (done.status, done.output_text) == ("completed", "t0 t1")


def test_a_stream_numbers_every_event_from_zero_and_adds_up_to_the_answer(sdk: openai.OpenAI) -> None:
    events = list(sdk.responses.create(model="m", input="tokens=3 pace=0.01", stream=True))
    assert [e.sequence_number for e in events] == list(range(len(events)))
    assert [e.type for e in events] == [
        "response.created", "response.queued", "response.in_progress", "response.output_item.added",
        "response.content_part.added", *["response.output_text.delta"] * 3, "response.output_text.done",
        "response.content_part.done", "response.output_item.done", "response.completed",
    ]  # fmt: skip
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == "t0 t1 t2"
    assert {e.response.id for e in events if hasattr(e, "response")} == {events[0].response.id}
    assert events[-1].response.output_text == "t0 t1 t2"
    assert sdk.responses.retrieve(events[0].response.id).output == events[-1].response.output


def test_a_stream_is_resumed_from_the_middle_after_and_during_the_run(sdk: openai.OpenAI) -> None:
    made = sdk.responses.create(model="m", input="tokens=6 pace=0.1", background=True, stream=True)
    first = [next(made) for _ in range(6)]
    made.close()
    job_id = first[0].response.id
    rest = list(sdk.responses.retrieve(job_id, stream=True, starting_after=5))
    again = list(sdk.responses.retrieve(job_id, stream=True, starting_after=5))
    assert [e.sequence_number for e in rest] == list(range(6, 6 + len(rest)))
    assert [e.to_dict() for e in rest] == [e.to_dict() for e in again]
    deltas = [e.delta for e in [*first, *rest] if e.type == "response.output_text.delta"]
    assert "".join(deltas) == "t0 t1 t2 t3 t4 t5"
    assert rest[-4].text == "t0 t1 t2 t3 t4 t5"


def test_the_sdks_own_stream_helper_follows_a_background_job(sdk: openai.OpenAI) -> None:
    made = sdk.responses.create(model="m", input="tokens=3 pace=0.05", background=True)
    with sdk.responses.stream(response_id=made.id, starting_after=4) as stream:
        assert stream.get_final_response().output_text == "t0 t1 t2"


def test_a_cancelled_job_stays_cancelled_and_its_stream_ends_incomplete(house: House, sdk: openai.OpenAI) -> None:
    made = sdk.responses.create(model="m", input="tokens=4 hold_at=2", background=True)
    stream = sdk.responses.retrieve(made.id, stream=True)
    seen = [next(stream) for _ in range(7)]
    assert seen[-1].type == "response.output_text.delta"
    cancelled = sdk.responses.cancel(made.id)
    assert cancelled.status == "cancelled"
    last = list(stream)[-1]
    assert (last.type, last.response.status, last.response.output_text) == ("response.incomplete", "cancelled", "t0 t1")
    assert sdk.responses.cancel(made.id).to_dict() == cancelled.to_dict()
    wait_until(lambda: house.worker.lost, what="the worker loses what nobody wants")
    assert list(sdk.responses.retrieve(made.id, stream=True))[-1].to_dict() == last.to_dict()


def test_a_queued_job_is_cancelled_before_it_runs_and_a_finished_one_stays_as_it_is(sdk: openai.OpenAI) -> None:
    done = finished(sdk, sdk.responses.create(model="m", input="x", background=True).id)
    assert sdk.responses.cancel(done.id).status == "completed"


def test_an_answer_cut_by_length_is_incomplete(sdk: openai.OpenAI) -> None:
    done = sdk.responses.create(model="m", input="tokens=1 length")
    assert (done.status, done.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    events = list(sdk.responses.create(model="m", input="tokens=1 length", stream=True))
    assert events[-1].type == "response.incomplete"


def test_a_failure_is_an_http_error_to_who_waits_and_a_state_to_who_polls(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.InternalServerError) as caught:
        sdk.responses.create(model="m", input="fail=worker_lost")
    assert (caught.value.code, caught.value.response.headers["x-should-retry"]) == ("worker_lost", "false")
    with pytest.raises(openai.BadRequestError, match="context_length_exceeded"):
        sdk.responses.create(model="m", input="fail=context_length_exceeded")
    done = finished(sdk, sdk.responses.create(model="m", input="fail_after=2 tokens=5", background=True).id)
    assert (done.status, done.error.code, done.output_text) == ("failed", "worker_lost", "t0 t1")


def test_a_failure_in_mid_stream_ends_it_with_response_failed(sdk: openai.OpenAI) -> None:
    events = list(sdk.responses.create(model="m", input="fail_after=2 tokens=5", stream=True))
    assert (events[-1].type, events[-1].response.error.code) == ("response.failed", "worker_lost")
    assert events[-1].response.usage is None


def test_a_long_poll_holds_until_the_end(house: House, sdk: openai.OpenAI) -> None:
    for ask in ({"params": {"wait": 20}}, {"headers": {"Prefer": "wait=20, respond-async"}}):
        made = sdk.responses.create(model="m", input="tokens=3 pace=0.1", background=True)
        with house.api.http() as http:
            answer = http.get(f"/v1/responses/{made.id}", **ask)
        assert (answer.status_code, answer.json()["status"]) == (200, "completed")


def test_a_long_poll_gives_up_after_its_seconds(house: House, sdk: openai.OpenAI) -> None:
    made = sdk.responses.create(model="m", input="hold", background=True)
    with house.api.http() as http:
        assert http.get(f"/v1/responses/{made.id}?wait=1").json()["status"] == "in_progress"
        for wrong in ("0", "61", "-1", "x", "1.5", ""):
            refused = http.get(f"/v1/responses/{made.id}", params={"wait": wrong})
            assert (refused.status_code, refused.json()["error"]["param"]) == (400, "wait")
    sdk.responses.cancel(made.id)


def test_an_event_source_that_has_everything_is_told_to_stop(house: House, sdk: openai.OpenAI) -> None:
    events = list(sdk.responses.create(model="m", input="tokens=2", stream=True))
    path, last = f"/v1/responses/{events[0].response.id}?stream=true", events[-1].sequence_number
    with house.api.http() as http:
        assert http.get(path, headers={"Last-Event-ID": str(last)}).status_code == 204
        rest = http.get(f"{path}&starting_after=0", headers={"Last-Event-ID": str(last - 1)})
        assert [line for line in rest.text.splitlines() if line.startswith("id:")] == [f"id: {last}"]
        assert rest.headers["content-type"].startswith("text/event-stream")
        assert (rest.headers["cache-control"], rest.headers["x-accel-buffering"]) == ("no-cache", "no")
        assert http.get(f"{path}&starting_after=x").json()["error"]["param"] == "starting_after"
        beyond = http.get(f"{path}&starting_after={last + 5}")
        assert (beyond.status_code, beyond.text) == (200, "")


def test_another_tenant_sees_nothing(house: House, sdk: openai.OpenAI) -> None:
    made = sdk.responses.create(model="m", input="x", background=True)
    other = house.sdk(house.new_key("other"))
    for call in (other.responses.retrieve, other.responses.cancel):
        with pytest.raises(openai.NotFoundError) as caught:
            call(made.id)
        assert caught.value.code == "job_not_found"
    with house.api.http(key=house.new_key("other")) as http:
        assert http.get(f"/v1/chat/completions/{made.id}").status_code == 404


def test_one_idempotency_key_is_one_job(sdk: openai.OpenAI) -> None:
    keyed = {"Idempotency-Key": "order-1"}
    first = sdk.responses.with_raw_response.create(model="m", input="x", background=True, extra_headers=keyed)
    again = sdk.responses.with_raw_response.create(model="m", input="x", background=True, extra_headers=keyed)
    assert again.parse().id == first.parse().id
    assert ("x-posthouse-replayed" in first.headers, again.headers["x-posthouse-replayed"]) == (False, "true")
    with pytest.raises(openai.ConflictError) as caught:
        sdk.responses.create(model="m", input="y", background=True, extra_headers=keyed)
    assert (caught.value.code, caught.value.response.headers["x-should-retry"]) == ("idempotency_conflict", "false")


def test_a_repeated_stream_replays_from_zero(sdk: openai.OpenAI) -> None:
    keyed = {"Idempotency-Key": "stream-1"}
    once, twice = (
        [e.to_dict() for e in sdk.responses.create(model="m", input="tokens=2", stream=True, extra_headers=keyed)]
        for _ in range(2)
    )
    assert [e["sequence_number"] for e in twice] == [e["sequence_number"] for e in once]
    assert twice[-1] == once[-1]


def test_a_webhook_to_a_private_address_is_refused(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        sdk.responses.create(
            model="m", input="x", background=True, extra_body={"webhook": {"url": "https://127.0.0.1/hook"}}
        )
    assert caught.value.code == "webhook_url_forbidden"


def test_tiers_are_capped_by_the_key(house: House) -> None:
    capped = house.sdk(house.new_key("t", tier_cap="flex"))
    assert (
        capped.responses.create(model="m", input="x", background=True, service_tier="priority").service_tier == "flex"
    )
    assert house.sdk().responses.create(model="m", input="x", background=True).service_tier == "default"


def test_characters_of_every_kind_come_back_unchanged(sdk: openai.OpenAI) -> None:
    for text in ("👩‍👩‍👧‍👦", "שלום", "e\u0301", "驿站", "\u2028<&>"):
        events = list(sdk.responses.create(model="m", input=f"tokens=2 say={text}", stream=True))
        assert events[-1].response.output_text == f"{text} {text}"
        assert sdk.responses.retrieve(events[0].response.id).output_text == f"{text} {text}"
