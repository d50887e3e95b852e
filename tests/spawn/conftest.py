"""Threads for those who come to a rendezvous."""

from concurrent.futures import ThreadPoolExecutor

import pytest


@pytest.fixture
def pool():
    with ThreadPoolExecutor(32) as executor:
        yield executor
