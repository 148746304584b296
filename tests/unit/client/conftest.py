"""Scripted servers, and the two clients as one parameter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from support.listen import Listen, listen_async, listen_sync
from support.scripted_triton import ScriptedTriton


@pytest.fixture(params=[listen_sync, listen_async], ids=["sync", "async"])
def listen(request: pytest.FixtureRequest) -> Listen:
    return request.param


@pytest.fixture
def scripted() -> Iterator[Callable[..., ScriptedTriton]]:
    """Starts scripted servers with ScriptedTriton's arguments."""
    with ExitStack() as stack:

        def start(*arguments: Any, **options: Any) -> ScriptedTriton:
            return stack.enter_context(ScriptedTriton(*arguments, **options))

        yield start
