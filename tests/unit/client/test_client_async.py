"""What is special to asyncio."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable

import numpy as np
import pytest
from orpheus_client import AsyncClient, AsyncSpeechStream, Client, SpeechStream, StreamBroken
from support.scripted_triton import Fail, Say, ScriptedTriton, Wait

Scripted = Callable[..., ScriptedTriton]
LONG = (Say(), Say(), Say(), Wait(30), Say(finish="stop"))


@pytest.mark.parametrize(("sync", "asynchronous"), [(Client, AsyncClient), (SpeechStream, AsyncSpeechStream)])
def test_both_clients_have_equal_names(sync: type, asynchronous: type) -> None:
    def public(kind: type) -> dict[str, list[str]]:
        members = {name: member for name, member in inspect.getmembers(kind) if not name.startswith("_")}
        return {name: list(inspect.signature(member).parameters) if callable(member) else [] for name, member in members.items()}

    assert public(sync) == public(asynchronous)


def test_eight_at_once_and_one_fails(scripted: Scripted) -> None:
    scripts: dict[str, object] = {
        str(number): [Say(100 + number, 1000 + number), Wait(0.02), Say(200, 1000 + number, finish="stop")] for number in range(8)
    }
    scripts["3"] = [Say(), Fail("[INTERNAL] the codec failed")]
    server = scripted(scripts)

    async def run() -> None:
        async with AsyncClient(server.url) as client:
            spoken = await asyncio.gather(*(client.synthesize(str(number)) for number in range(8)), return_exceptions=True)
        for number, speech in enumerate(spoken):
            if isinstance(speech, BaseException):
                assert number == 3
                assert isinstance(speech, StreamBroken)
            else:
                np.testing.assert_array_equal(speech.samples, np.full(300 + number, 1000 + number, np.int16))

    asyncio.run(run())
    assert [how for _, how in server.wait_for_ends(8)] == ["complete"] * 8


def test_a_cancelled_task_still_stops_its_stream(scripted: Scripted) -> None:
    server = scripted({"long": LONG})

    async def run() -> str:
        async with AsyncClient(server.url) as client:
            request_ids: list[str] = []
            talks = asyncio.Event()

            async def talk() -> None:
                async with client.stream("long") as speech:
                    request_ids.append(speech.request_id)
                    async for _ in speech:
                        talks.set()

            task = asyncio.create_task(talk())
            await talks.wait()
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()  # once more, while the block is being left
            with pytest.raises(asyncio.CancelledError):
                await task
            return request_ids[0]

    request_id = asyncio.run(run())
    assert server.stops == [request_id]
    assert server.wait_for_ends(1) == [(request_id, "complete")]


def test_cancel_from_another_task_ends_the_loop(scripted: Scripted) -> None:
    server = scripted({"long": LONG})

    async def run() -> None:
        async with AsyncClient(server.url) as client, client.stream("long") as speech:
            heard = [await anext(speech) for _ in range(3)]
            stopper = asyncio.create_task(speech.cancel())
            heard.extend([chunk async for chunk in speech])
            await stopper
            assert len(heard) == 3
            assert speech.finish_reason == "cancelled"

    asyncio.run(run())


def test_closing_the_client_cancels_what_runs(scripted: Scripted) -> None:
    server = scripted({"long": LONG})

    async def run() -> None:
        client = AsyncClient(server.url)
        tasks = [asyncio.create_task(client.synthesize("long")) for _ in range(3)]
        while len(server.requests) < 3:
            await asyncio.sleep(0.01)
        await client.close()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(outcome, StreamBroken)

    asyncio.run(run())
    assert [how for _, how in server.wait_for_ends(3)] == ["complete"] * 3


def test_description_voices_and_health(scripted: Scripted) -> None:
    server = scripted()

    async def run() -> None:
        async with AsyncClient(server.url) as client:
            assert await client.voices() == ("ada", "bob")
            assert (await client.health()).ok

    asyncio.run(run())


def test_another_loop_is_told(scripted: Scripted) -> None:
    server = scripted()
    client = AsyncClient(server.url)

    async def use() -> None:
        await client.voices()

    async def use_and_close() -> None:
        await use()

    asyncio.run(use_and_close())
    with pytest.raises(RuntimeError, match="another event loop"):
        asyncio.run(use())
