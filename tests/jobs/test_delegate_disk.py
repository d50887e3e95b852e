"""Files of a delegate that take the place of others."""

import _thread
import os
import threading

import pytest

from acp_mpi.delegates import disk, generations


@pytest.mark.parametrize("threads", [True, False])
def test_what_is_replaced_is_closed_whether_a_thread_can_be_had_or_not(
    monkeypatch, tmp_path, threads
):
    def none(function, arguments):
        raise RuntimeError("can't start new thread")

    closed, close = threading.Event(), os.close
    place, part = tmp_path / "field", tmp_path / "field.part"
    place.write_bytes(b"old")
    part.write_bytes(b"new")
    old = disk.opened([str(place)])
    monkeypatch.setattr(disk, "opened", lambda paths: old)
    monkeypatch.setattr(os, "close", lambda d: (close(d), closed.set() if d in old else None))
    if not threads:
        monkeypatch.setattr(_thread, "start_new_thread", none)
    disk.take_place(str(place))
    assert closed.wait(60)
    assert place.read_bytes() == b"new"
    assert not part.exists()


def test_what_another_delegate_begins_while_old_generations_go_stays(monkeypatch, tmp_path):
    files, begun = generations._files, tmp_path / "9-92aeddfb-2.0.data.part"

    def then_begins(folder):
        found = files(folder)
        begun.touch()
        return found

    (tmp_path / "8-92aeddfb-1.0.data").touch()
    monkeypatch.setattr(generations, "_files", then_begins)
    generations.prune(str(tmp_path), "92aeddfb")
    assert begun.exists()
