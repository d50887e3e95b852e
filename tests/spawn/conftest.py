"""Threads for those who come to a rendezvous, and programs that are launchers by their names."""

from concurrent.futures import ThreadPoolExecutor

import pytest


@pytest.fixture
def pool():
    with ThreadPoolExecutor(32) as executor:
        yield executor


@pytest.fixture
def programs(tmp_path):
    """programs(name, ...) makes files that can be run; returns their folder."""

    def make(*names, text="#!/bin/sh\n"):
        for name in names:
            file = tmp_path / name
            file.write_text(text)
            file.chmod(0o700)
        return tmp_path

    return make
