"""The keeper, with real processes: whatever ends, nothing of the engine lives on."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from model_pool import procfs, slots
from tests.integration.model_pool.standin import StandInEngine, alive, pids_of, standin_spec, wait_gone
from tests.support.waiting import wait_until


class Kept:
    """A keeper that the test started, with the worker's end of the line."""

    def __init__(self, spec, command=None, grace=0.5) -> None:
        self.line, theirs = socket.socketpair()
        self.spec = spec
        with theirs:
            fd = str(theirs.fileno())
            options = ["--parent-fd", fd, "--record", str(spec.record), "--grace", str(grace), "--"]
            self.keeper = subprocess.Popen(
                [sys.executable, "-m", "model_pool.keeper", *options, *(command or StandInEngine().command(spec))],
                pass_fds=(theirs.fileno(),),
            )
        self.line.settimeout(20)

    def hello(self):
        return int(self.line.recv(32))

    def end(self):
        self.line.close()
        if self.keeper.poll() is None:
            self.keeper.kill()
        self.keeper.wait(20)
        slots.end_recorded(self.spec.record)


@pytest.fixture
def keep(tmp_path):
    """Start keepers; whatever they leave is ended after the test."""
    kept = []

    def start(*how: str, command=None, grace=0.5) -> Kept:
        kept.append(Kept(standin_spec(tmp_path, *how), command, grace))
        return kept[-1]

    yield start
    for each in kept:
        each.end()


def shell(script):
    return ["/bin/sh", "-c", script]


def test_the_record_names_the_running_server(keep):
    """Pid and start time together: no later process with the same number matches."""
    kept = keep()
    pid = kept.hello()

    record = slots.read(kept.spec.record)

    assert record.pgid == pid
    assert record.started == procfs.look_up(pid).started
    assert record.boot == procfs.boot_id()
    wait_until(lambda: procfs.look_up(pid).group == pid != os.getpgid(0), what="it has a group of its own")


def test_the_end_of_the_worker_ends_the_daemon_too(keep):
    """The line's end is the worker's end, however it went; a child with a session of its own does not escape."""
    kept = keep("daemon")
    pids = pids_of(kept.spec, 2)
    assert procfs.look_up(pids[1]).session == pids[1]

    kept.line.close()

    wait_gone(*pids)
    assert kept.keeper.wait(20) == 128 + signal.SIGTERM


def test_a_server_that_ignores_sigterm_is_killed_after_the_grace(keep):
    """The worker's order carries the grace; what is left after it gets SIGKILL."""
    kept = keep("deaf", "daemon")
    pids = pids_of(kept.spec, 2)

    kept.line.send(b"0.2\n")

    wait_gone(*pids)
    assert kept.keeper.wait(20) == 128 + signal.SIGKILL


def test_a_frozen_server_is_killed(keep):
    """SIGTERM does not reach a stopped process; SIGKILL does."""
    kept = keep()
    (pid,) = pids_of(kept.spec, 1)
    os.kill(pid, signal.SIGSTOP)

    kept.line.send(b"0.2\n")

    wait_gone(pid)


def test_shared_memory_of_a_killed_server_is_given_back(keep):
    """It belongs to the machine, not to the process: a killed engine must not cost memory for ever."""
    kept = keep("memory")
    (pid,) = pids_of(kept.spec, 1)
    block = Path("/dev/shm") / Path(f"{kept.spec.socket}.shared").read_text()
    assert block.exists()

    kept.line.send(b"0\n")

    assert kept.keeper.wait(20) == 128 + signal.SIGKILL
    assert not alive(pid)
    assert not block.exists()


def test_a_worker_that_dies_during_a_long_stop_shortens_it(keep):
    """Half a minute of grace is the worker's to give, and it is gone."""
    kept = keep("deaf", grace=0.2)
    (pid,) = pids_of(kept.spec, 1)

    kept.line.send(b"600\n")
    kept.line.close()

    wait_gone(pid)


def test_the_servers_end_ends_the_rest_and_gives_its_status(keep):
    """A vLLM API server that dies leaves an engine core with gigabytes behind; it must not."""
    kept = keep("daemon")
    server, daemon = pids_of(kept.spec, 2)

    os.kill(server, signal.SIGKILL)

    wait_gone(daemon)
    assert kept.keeper.wait(20) == 128 + signal.SIGKILL


@pytest.mark.parametrize("status", [0, 3])
def test_the_status_of_the_command_is_the_keepers(keep, status):
    """The log says how the engine ended."""
    kept = keep(command=shell(f"exit {status}"))

    assert kept.keeper.wait(20) == status


def test_a_command_that_does_not_exist_is_said_so(keep, capfd):
    """The shell's status for it, and a line in the log that names it."""
    kept = keep(command=["/no/such/engine"])

    assert kept.keeper.wait(20) == 127
    assert "cannot start /no/such/engine" in capfd.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_the_workers_group_does_not_touch_keeper_or_server(keep, number):
    """Ctrl-C means: drain. The worker needs its engine for that, and says itself when it is done."""
    kept = keep()
    (pid,) = pids_of(kept.spec, 1)

    kept.keeper.send_signal(number)
    # The keeper still does its work afterwards: it hears the order and ends the server.
    assert alive(pid)
    kept.line.send(b"5\n")

    assert kept.keeper.wait(20) == 128 + signal.SIGTERM
    assert not alive(pid)


def test_sigterm_to_the_keeper_cleans_up_before_it_goes(keep):
    """An operator or a container's end may signal every process: nothing is left behind by that either."""
    kept = keep("daemon", "deaf", grace=0.2)
    pids = pids_of(kept.spec, 2)

    kept.keeper.send_signal(signal.SIGTERM)

    kept.keeper.wait(20)
    assert not any(alive(pid) for pid in pids)


def test_what_a_killed_keeper_left_is_ended_from_its_record(keep):
    """The server dies with its keeper; the daemon is found by its mark, though its group and session are its own."""
    kept = keep("daemon")
    server, daemon = pids_of(kept.spec, 2)

    kept.keeper.kill()
    kept.keeper.wait(20)
    wait_gone(server)
    assert alive(daemon)

    assert slots.end_recorded(kept.spec.record) == [daemon]
    assert not alive(daemon)


def test_a_recorded_group_is_ended(tmp_path):
    """While the recorded leader lives, its whole group belongs to the slot, marked or not."""
    spec = standin_spec(tmp_path)
    leader = subprocess.Popen(shell("sleep 600 & echo up; wait"), start_new_session=True, stdout=subprocess.PIPE)
    leader.stdout.readline()
    (child,) = procfs.descendants(leader.pid)
    started = procfs.look_up(leader.pid).started
    slots.write(spec.record, slots.SlotRecord(leader.pid, started, procfs.boot_id(), "mark"))

    assert slots.end_recorded(spec.record) == sorted([leader.pid, child.pid])

    assert leader.wait(20) == -signal.SIGKILL
    leader.stdout.close()
    wait_gone(child.pid)


@pytest.mark.parametrize("change", [{"started": 1}, {"boot": "another start of the machine"}])
def test_a_process_with_a_reused_number_is_left_alone(tmp_path, change):
    """The number alone proves nothing: another start time, or another boot, is another process."""
    spec = standin_spec(tmp_path)
    stranger = subprocess.Popen(["sleep", "600"], start_new_session=True)
    record = {
        "pgid": stranger.pid,
        "started": procfs.look_up(stranger.pid).started,
        "boot": procfs.boot_id(),
        "mark": "mark",
    }
    spec.record.write_text(json.dumps(record | change))

    try:
        assert slots.end_recorded(spec.record) == []
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait(20)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pgid": 1}', '{"pgid": 1, "of": "a later version"}'])
def test_a_record_that_cannot_be_read_ends_nothing(tmp_path, text):
    """A torn or foreign file must not keep a slot from starting, and names nobody to kill."""
    spec = standin_spec(tmp_path)
    spec.record.write_text(text)

    assert slots.end_recorded(spec.record) == []


def test_a_slot_without_a_record_has_nothing_to_end(tmp_path):
    """The first start of a slot."""
    assert slots.end_recorded(standin_spec(tmp_path).record) == []


def test_adopted_orphans_leave_no_zombies(keep):
    """Engines start helpers that end by themselves; the keeper takes their status, for weeks on end."""
    kept = keep(command=shell("for i in 1 2 3; do (sleep 0 & exec true); done; sleep 600"))
    kept.hello()

    def only_the_sleeper() -> bool:
        numbers = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        mine = [n for n in numbers if (process := procfs.look_up(n)) and process.parent == kept.keeper.pid]
        return mine == [slots.read(kept.spec.record).pgid]

    wait_until(only_the_sleeper, what="the keeper has one child and no zombie")
