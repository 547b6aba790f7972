"""The small parts of the supervisor that need no process."""

from __future__ import annotations

import io
import stat

import pytest

from app.up import kept_secrets
from app.up.console import Console
from app.up.lines import LineSplitter
from app.up.lock import FolderInUseError, lock_folder
from app.up.ports import KeptPorts, is_free
from app.up.runner import describe_status, restart_pause


def test_lines_come_out_whole_however_the_bytes_arrive():
    lines = LineSplitter()
    assert lines.feed(b"on") == []
    assert lines.feed(b"e\ntwo\r50%\r100%\n\nth") == ["one", "two", "50%", "100%"]
    assert lines.finish() == ["th"]


def test_a_line_without_end_is_cut_not_kept():
    lines = LineSplitter(longest=4)
    assert lines.feed(b"abcdefghij") == ["abcd", "efgh"]
    assert lines.finish() == ["ij"]


def test_a_multibyte_character_split_between_chunks_survives():
    lines = LineSplitter()
    data = "驿站\n".encode()
    assert lines.feed(data[:2]) == []
    assert lines.feed(data[2:]) == ["驿站"]


def test_restarts_back_off_and_stay_bounded():
    pauses = [restart_pause(deaths) for deaths in range(1, 200)]
    assert pauses[:3] == [0.5, 1.0, 2.0]
    assert max(pauses) == 30.0
    assert pauses == sorted(pauses)


@pytest.mark.parametrize(("status", "words"), [(0, "status 0"), (3, "status 3"), (-9, "SIGKILL"), (-63, "signal 63")])
def test_an_exit_status_is_told_in_words(status, words):
    assert words in describe_status(status)


def test_console_aligns_names_and_colours_only_terminals():
    out = io.StringIO()
    console = Console(out)
    console.expect(["api", "gpu.demo.0"])
    console.line("api", "hello")
    console.line("gpu.demo.0", "hello")
    assert out.getvalue() == "api        | hello\ngpu.demo.0 | hello\n"


class _Closed(io.StringIO):
    def write(self, _text: str) -> int:
        raise BrokenPipeError


def test_console_without_a_reader_falls_silent():
    console = Console(_Closed())
    console.say("one")
    console.say("two")


def test_secrets_are_made_once_and_only_the_owner_reads_them(tmp_path):
    first = kept_secrets.load_or_create(tmp_path)
    assert kept_secrets.load_or_create(tmp_path) == first
    assert stat.S_IMODE((tmp_path / "secrets.toml").stat().st_mode) == 0o600
    assert first.redis_password not in repr(first)


def test_a_secret_that_a_newer_version_wants_is_added(tmp_path):
    first = kept_secrets.load_or_create(tmp_path)
    file = tmp_path / "secrets.toml"
    file.write_text("\n".join(line for line in file.read_text().splitlines() if not line.startswith("dev_key")))
    second = kept_secrets.load_or_create(tmp_path)
    assert second.secret_key == first.secret_key
    assert second.dev_key
    assert kept_secrets.load_or_create(tmp_path) == second


def test_a_second_stack_on_the_same_folder_is_refused(tmp_path):
    lock_folder(tmp_path)
    with pytest.raises(FolderInUseError, match="in use by another"):
        lock_folder(tmp_path, patience=0)


def test_ports_are_kept_while_they_are_free(tmp_path):
    kept = KeptPorts(tmp_path)
    first, other = kept.get("redis.jobs"), kept.get("redis.cache")
    assert first != other
    assert KeptPorts(tmp_path).get("redis.jobs") == first


def test_a_kept_port_that_somebody_took_is_replaced(tmp_path):
    import socket

    first = KeptPorts(tmp_path).get("redis.jobs")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first))
        taken.listen()
        assert not is_free("127.0.0.1", first)
        assert KeptPorts(tmp_path).get("redis.jobs") != first
