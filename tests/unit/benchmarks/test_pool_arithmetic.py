"""What the benchmark of the pool makes of records, events and streams."""

from __future__ import annotations

import pytest

from benchmarks.support.attempts import Attempt, attempt_from
from benchmarks.support.flow import Ran, saturated_rate
from benchmarks.support.pauses import pause
from benchmarks.support.trial import Trial


def ran(name: str, started: float, ended: float, created: float = 0) -> Ran:
    return Ran(name, created, started, ended, "completed")


def test_throughput_counts_only_what_ended_while_all_places_were_taken():
    waves = [ran(f"gen_{wave}{place}", wave, wave + 0.99) for wave in range(6) for place in range(2)]
    alone_at_the_end = ran("gen_last", 6, 9)
    assert saturated_rate([*waves, alone_at_the_end], places=2) == pytest.approx(12 / 6)


def test_a_place_that_stands_empty_between_jobs_costs_throughput():
    waves = [ran(f"gen_{wave}{place}", 2 * wave, 2 * wave + 1) for wave in range(6) for place in range(2)]
    assert saturated_rate(waves, places=2) == pytest.approx(10 / 10)


def test_a_pause_ends_with_the_next_attempt_and_not_with_a_token_that_was_under_way():
    tokens = [(5, 0.9), (6, 0.95), (7, 1.01), (8, 3.0), (9, 3.02), (10, 9.0)]
    assert pause(1.0, tokens, taken_up=8) == pytest.approx(2.0)


def test_an_attempt_is_read_from_the_event_of_its_task():
    event = {
        "hostname": "gpu-my-model-3@host", "timestamp": 100.0,
        "result": "'ran=gen_12ab attempt=2 outcome=completed seconds=0.5'",
    }  # fmt: skip
    assert attempt_from(event) == Attempt("gen_12ab", "my-model.3", 99.5, "completed")


def test_a_task_that_found_nothing_was_no_attempt():
    assert attempt_from({"hostname": "gpu-m-0@h", "timestamp": 1.0, "result": "'ran=None why=nothing to run'"}) is None


def test_jobs_given_to_a_bad_instance_are_those_that_began_there_since_and_failed():
    attempts = [
        Attempt("gen_before", "four.1", 9.0, "requeued"),
        Attempt("gen_given", "four.1", 10.1, "requeued"),
        Attempt("gen_given", "four.0", 10.2, "completed"),
        Attempt("gen_restarted", "four.1", 14.0, "completed"),
        Attempt("gen_elsewhere", "four.0", 11.0, "requeued"),
    ]
    jobs = [ran(name, 1, 2) for name in ("gen_before", "gen_given", "gen_restarted", "gen_elsewhere")]
    trial = Trial(jobs, attempts, {"four.1": 10.0})
    assert trial.given("four.1") == 1
    assert [job.generation for job in trial.others()] == ["gen_restarted", "gen_elsewhere"]
