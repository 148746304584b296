"""The short form of `make soak`."""

from __future__ import annotations

import soak
from support.server import StartServer


def test_half_a_minute_of_everything(start_server: StartServer) -> None:
    found = soak.soak(start_server(), seconds=30, callers=8)
    assert found.done[soak.WHOLE] > 20
    assert found.done[soak.LEAVE] > 20
    assert found.done[soak.INVALID] > 3
    assert found.faults(allow_mb=40) == []
