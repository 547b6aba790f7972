"""Delivery records: made once, claimed by one, settled by the holder, bounded, and never without an end."""

from __future__ import annotations

import json
import threading

import pytest

from app.errors import ServerError
from app.jobs import events
from app.jobs.job import JobView, Webhook
from app.jobs.store import SCRIPTS, JobStore
from app.lua import Scripts
from app.settings import ConfigurationError
from app.webhooks.backoff import Answer, Verdict
from app.webhooks.deliveries import Claim, NewDelivery, Waiting
from app.webhooks.fanout import FanOut
from app.webhooks.tenant_secrets import TenantSecrets
from tests.support.courier import SECRET_KEY, Office, office
from tests.support.letters import letter
from tests.support.redis_process import RedisProcess
from tests.support.waiting import wait_until

DELIVERED = (Answer(200), Verdict("delivered"))
DEAD = (Answer(410), Verdict("dead"))


def new(number: int = 0, *, host: str = "a:443", tenant: str = "t") -> NewDelivery:
    return NewDelivery(host, tenant, f"https://{host}/", f"evt_{number}", "response.completed", "resp", b"{}")


def claim(post: Office, limit: int = 10, lease: float = 60, per_host: int = 10, **room: int) -> list[Claim]:
    return post.store.claim_due(limit, lease, per_host, room)


def test_a_repeated_creation_makes_nothing_twice(post: Office):
    assert post.store.create([new(), new(), new(1)]) == 2
    held = claim(post)
    post.store.settle(held[0], *DELIVERED)
    assert post.store.create([new(), new(1)]) == 0
    assert claim(post) == []


def test_a_doubled_hint_finds_nothing(post: Office):
    post.store.create([new()])
    assert len(claim(post)) == 1
    assert claim(post) == []


def test_a_lost_claim_comes_back_and_its_old_holder_can_write_nothing(post: Office):
    post.store.create([new()])
    (first,) = claim(post, lease=0.05)
    (second,) = wait_until(lambda: claim(post), what="the claim is due again")
    assert (first.id, first.attempt, second.attempt) == (second.id, 1, 2)
    assert not post.store.settle(first, *DELIVERED)
    assert post.store.settle(second, *DELIVERED)
    assert not post.store.settle(second, *DEAD)
    assert post.record()["state"] == "delivered"


def test_a_backlog_of_one_host_hides_no_other(post: Office):
    post.store.create(new(n) for n in range(50))
    post.store.create([new(99, host="b:443")])
    hosts = [c.host for c in claim(post, limit=10, per_host=3)]
    assert sorted(hosts) == ["a:443"] * 3 + ["b:443"]


def test_a_host_without_room_is_passed_over(post: Office):
    post.store.create([new(), new(1, host="b:443")])
    held = post.store.claim_due(1, 60, 10, {"a:443": 0})
    assert [c.host for c in held] == ["b:443"]


def test_a_retry_is_due_after_its_delay(post: Office):
    post.store.create([new()])
    (held,) = claim(post)
    post.store.settle(held, Answer(500), Verdict("retry", 3600))
    assert claim(post) == []
    assert not post.store.work_waiting()
    assert post.record()["last_status"] == "500"


def test_dead_letters_are_bounded_per_tenant(post: Office):
    for start in range(0, 1010, 100):
        post.store.create(new(n) for n in range(start, start + 100))
        for held in claim(post, limit=100, per_host=100):
            post.store.settle(held, *DEAD)
    assert post.client.zcard("ph:deliveries:dead:t") == 1000


def test_every_key_has_an_end(post: Office):
    post.store.create(new(n) for n in range(3))
    retried, dead, delivered = claim(post)
    post.store.settle(retried, Answer(500), Verdict("retry", 60))
    post.store.settle(dead, *DEAD)
    post.store.settle(delivered, *DELIVERED)
    endless = {key for key in post.client.keys("ph:*") if post.client.ttl(key) == -1}
    assert endless == {"ph:deliveries:due"}
    assert {post.client.ttl(f"ph:delivery:{c.id}") // 86_400 for c in (retried, dead, delivered)} <= {2, 3, 6, 7}


def test_a_record_that_ran_out_leaves_its_line(post: Office):
    post.store.create([new()])
    post.client.delete(f"ph:delivery:{new().id}")
    assert claim(post) == []
    assert not post.client.exists("ph:deliveries:due", "ph:deliveries:due:a:443")


def test_one_look_says_whether_anything_waits(post: Office):
    assert not post.store.work_waiting()
    post.end_job("https://a/hook")
    assert post.store.work_waiting() == Waiting(outbox=1, hosts=0)
    FanOut(post.store, post.jobs).step()
    assert post.store.work_waiting() == Waiting(outbox=0, hosts=1)
    claim(post)
    assert not post.store.work_waiting()


def test_scripts_survive_a_restart_of_redis(own_redis: RedisProcess):
    post = office(own_redis.url())
    post.store.create([new()])
    own_redis.client().script_flush()
    assert len(claim(post)) == 1


class Joined:
    """A generation with many jobs, read in pages; stands in for what joining will make."""

    def __init__(self, store: JobStore, template: JobView, count: int) -> None:
        self._store = store
        self._template = template
        self.ids = [f"resp_{n:032x}" for n in range(count)]
        self.fail_at: int | None = None
        self.unreadable: set[str] = set()

    def jobs_of_generation(self, generation: str, cursor: int, count: int) -> tuple[int, list[str]]:
        assert generation == "g"
        if self.fail_at == cursor:
            raise ValueError("unreadable")
        page = self.ids[cursor : cursor + count]
        following = cursor + count
        return (following if following < len(self.ids) else 0), page

    def view(self, job_id: str) -> JobView | None:
        if job_id in self.unreadable:
            raise ValueError("unreadable")
        return type(self._template)(**{**vars(self._template), "id": job_id})


def joined(post: Office, count: int) -> Joined:
    view = post.jobs.existing(post.end_job("https://a/hook"))
    post.client.delete("ph:outbox")
    post.client.zadd("ph:outbox", {"gen:g": 1})
    return Joined(post.jobs, view, count)


def test_the_outbox_entry_goes_only_when_all_of_its_deliveries_exist(post: Office):
    fan_out = FanOut(post.store, joined(post, 125))
    assert fan_out.step() == (1, 50)
    assert fan_out.step() == (1, 50)
    assert post.client.zcard("ph:outbox") == 1
    assert fan_out.step() == (1, 25)
    assert fan_out.step() == (0, 0)


def test_a_fan_out_that_died_half_way_is_begun_again_without_doubles(post: Office):
    jobs = joined(post, 125)
    FanOut(post.store, jobs).step()
    fan_out = FanOut(post.store, jobs)
    assert [fan_out.step()[1] for _ in range(4)] == [0, 50, 25, 0]
    assert len(post.client.keys("ph:delivery:*")) == 125


def test_an_unreadable_entry_holds_up_no_other_and_is_kept(post: Office):
    jobs = joined(post, 10)
    jobs.fail_at = 0
    post.client.zadd("ph:outbox", {"job:resp_1": 2})
    assert FanOut(post.store, jobs).step() == (2, 1)
    assert post.client.zrange("ph:outbox", 0, -1) == ["gen:g"]
    assert not post.store.outbox(10)


def test_an_unreadable_job_holds_up_no_other_and_is_kept(post: Office):
    jobs = joined(post, 75)
    bad = jobs.ids[3]
    jobs.unreadable.add(bad)
    fan_out = FanOut(post.store, jobs)
    assert [fan_out.step() for _ in range(3)] == [(1, 49), (1, 25), (0, 0)]
    assert post.client.zrange("ph:outbox", 0, -1) == [f"job:{bad}"]
    assert not post.store.outbox(10), "it is tried again later"
    jobs.unreadable.clear()
    post.client.zadd("ph:outbox", {f"job:{bad}": 1})
    assert fan_out.step() == (1, 1)
    assert post.client.zcard("ph:outbox") == 0
    assert len(post.client.keys("ph:delivery:*")) == 75


def test_a_job_that_has_not_ended_keeps_its_entry(post: Office):
    job, generation = letter(webhook=Webhook("https://a/hook"))
    post.jobs.submit(job, generation)
    post.client.zadd("ph:outbox", {f"job:{job.id}": 1})
    assert FanOut(post.store, post.jobs).step() == (1, 0)
    assert post.client.zcard("ph:outbox") == 1


def test_jobs_without_a_webhook_and_jobs_that_are_gone_clear_the_outbox(post: Office):
    job, generation = letter()
    post.jobs.submit(job, generation)
    post.jobs.cancel(job.id)
    post.client.zadd("ph:outbox", {f"job:{job.id}": 1, "job:resp_gone": 1, "gen:gone": 1})
    assert FanOut(post.store, post.jobs).step() == (3, 0)
    assert post.client.zcard("ph:outbox") == 0


def test_a_commit_leaves_one_delivery_per_job(post: Office):
    job, generation = letter(webhook=Webhook("https://a/hook"))
    post.jobs.submit(job, generation)
    scripts = Scripts(post.client, SCRIPTS)
    held = scripts.call("claim", "m", "w", "m.0", 10_000, "task-1")
    end = events.end("completed", finish="stop")
    scripts.call("commit", held[0], held[1], held[3], "completed", "{}", "", "", 1, 1, 0, end)
    assert FanOut(post.store, post.jobs).step() == (1, 1)
    (got,) = claim(post)
    assert b'"response.completed"' in got.body
    assert job.id.encode() in got.body


def test_all_who_ask_at_once_get_one_secret(redis_url: str):
    offices = [office(redis_url) for _ in range(8)]
    found: list[str] = []
    threads = [threading.Thread(target=lambda o=o: found.append(o.secrets.get_or_create("t"))) for o in offices]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(found) == 8
    assert len(set(found)) == 1


def test_secrets_are_encrypted_at_rest_and_differ_between_tenants(post: Office):
    secret = post.secrets.get_or_create("t")
    assert secret.startswith("whsec_")
    assert secret != post.secrets.get_or_create("u")
    stored = str(post.client.hgetall("ph:tenant:t:webhook_secret"))
    assert secret.removeprefix("whsec_") not in stored
    assert post.client.ttl("ph:tenant:t:webhook_secret") == -1


def test_replaced_secrets_sign_along_for_a_day_and_no_longer(post: Office):
    first = post.secrets.get_or_create("t")
    second = post.secrets.rotate("t")
    third = post.secrets.rotate("t")
    assert post.secrets.signing("t") == (third, second, first)
    previous = post.client.hget("ph:tenant:t:webhook_secret", "previous")
    expired = json.dumps([[token, 1] for token, _ in json.loads(previous)])
    post.client.hset("ph:tenant:t:webhook_secret", "previous", expired)
    assert post.secrets.signing("t") == (third,)


def test_a_changed_secret_key_is_an_error_and_makes_no_new_secret(post: Office):
    post.secrets.get_or_create("t")
    other = TenantSecrets(post.client, SECRET_KEY[::-1].replace("=", "") + "=")
    with pytest.raises(ServerError):
        other.get_or_create("t")


@pytest.mark.parametrize("key", ["", "short", "=" * 44])
def test_without_a_usable_secret_key_nothing_starts(post: Office, key: str):
    with pytest.raises(ConfigurationError, match="secret_key"):
        TenantSecrets(post.client, key)
