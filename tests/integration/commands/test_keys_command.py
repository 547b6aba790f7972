"""`posthouse keys`: what it prints, and what it says when it cannot."""

from __future__ import annotations

import pytest
from click.testing import CliRunner, Result

from app.commands.keys import keys
from tests.support.redis_process import free_port


def run(url: str, *args: str) -> Result:
    return CliRunner(env={"POSTHOUSE_REDIS__JOBS_URL": url}).invoke(keys, args)


def test_a_key_is_made_listed_rotated_and_revoked(redis_url: str) -> None:
    made = run(redis_url, "create", "--tenant", "acme", "--requests-per-minute", "60", "--model", "a", "--name", "shop")
    assert made.exit_code == 0, made.output
    secret = made.stdout.strip()
    assert secret.startswith("ph_")
    listed = run(redis_url, "list").stdout
    assert "60 requests/min  models a  shop" in listed
    assert secret not in listed
    key_id = listed.split()[0]
    rotated = run(redis_url, "rotate", key_id, "--grace", "60")
    assert (rotated.exit_code, rotated.stdout.startswith("ph_"), rotated.stdout.strip() != secret) == (0, True, True)
    assert "works for 60 s more" in rotated.stderr
    assert run(redis_url, "revoke", key_id).exit_code == 0
    assert run(redis_url, "list").stdout == ""


@pytest.mark.parametrize("command", ["revoke", "rotate"])
def test_an_unknown_key_is_named(redis_url: str, command: str) -> None:
    done = run(redis_url, command, "key_nope")
    assert (done.exit_code, "there is no key key_nope" in done.stderr) == (1, True)


@pytest.mark.parametrize("args", [("list",), ("create", "--tenant", "t"), ("revoke", "key_x"), ("rotate", "key_x")])
def test_redis_away_is_one_sentence_and_no_traceback(args: tuple[str, ...]) -> None:
    done = run(f"redis://:a-password@127.0.0.1:{free_port()}/0", *args)
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: the jobs Redis does not answer")
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert "a-password" not in done.stderr
