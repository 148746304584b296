"""The state machine alone, under a fake clock."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from orpheus_client.errors import (
    ChunkTimeout,
    EmptySpeech,
    FirstAudioTimeout,
    InvalidRequest,
    OrpheusError,
    Overloaded,
    ServerError,
    ServerUnavailable,
    StreamBroken,
    TotalTimeout,
    from_status,
    from_stream_message,
)
from orpheus_client.exchange import Arrived, Ended, Exchange, Failed
from orpheus_client.speech import SpeechRequest
from orpheus_client.timeouts import Timeouts
from orpheus_client.wire import protocol


def exchange(timeouts: Timeouts | None = None, retries: int = 0, **options: Any) -> Exchange:
    return Exchange(SpeechRequest("hello", **options), "orpheus_tts", "id-1", timeouts or Timeouts(), retries, 10.0)


def response(index: int, samples: int = 100, finish: str = "", level: int = 9000, dtype: str = "INT16") -> Any:
    message = protocol.ModelStreamInferResponse()
    inner = message.infer_response
    contents = {
        "AUDIO": (dtype, np.full(samples, level, "<i2").tobytes()),
        "INDEX": ("INT32", np.array([index], "<i4").tobytes()),
        "FINISH_REASON": ("BYTES", len(finish).to_bytes(4, "little") + finish.encode()),
    }
    for name, (datatype, content) in contents.items():
        inner.outputs.add(name=name, datatype=datatype)
        inner.raw_output_contents.append(content)
    return message


def failing(message: str) -> Any:
    return protocol.ModelStreamInferResponse(error_message=message)


def test_chunks_come_in_order_with_their_arrival() -> None:
    run = exchange()
    first = run.feed(Arrived(response(0), 10.5))
    assert first is not None
    assert (first.index, first.arrived_s, len(first.samples)) == (0, 0.5, 100)
    assert run.feed(Arrived(response(1, samples=0), 11.0)) is None
    last = run.feed(Arrived(response(2, finish="length"), 11.5))
    assert last is not None
    assert run.finish_reason == "length"
    assert run.timings().total_s == 1.5
    assert run.timings().chunk_samples == (100, 100)


@pytest.mark.parametrize("indices", [[0, 2], [0, 0], [1], [0, 1, 0]])
def test_a_gap_or_a_reordering_is_an_error(indices: list[int]) -> None:
    run = exchange()
    for index in indices[:-1]:
        run.feed(Arrived(response(index), 11.0))
    with pytest.raises(StreamBroken, match="was due"):
        run.feed(Arrived(response(indices[-1]), 11.0))


def test_an_end_without_a_finish_reason_is_no_clean_end() -> None:
    run = exchange()
    run.feed(Arrived(response(0), 11.0))
    with pytest.raises(StreamBroken, match="without saying"):
        run.feed(Ended(12.0))


def test_a_stream_of_another_model_is_an_error() -> None:
    with pytest.raises(StreamBroken, match="orpheus_tts"):
        exchange().feed(Arrived(response(0, dtype="INT32"), 11.0))


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("in ensemble 'orpheus_tts', [INVALID_ARGUMENT] VOICE 'x' is unknown; voices are: ada", InvalidRequest),
        ("[UNAVAILABLE] all 4 streams are in use", Overloaded),
        ("[INTERNAL] the server failed: KeyError", ServerError),
        ("Request for unknown model: 'orpheus_tts' is not found", ServerUnavailable),
        ("GRPC server is shutting down and has stopped accepting new requests.", ServerUnavailable),
        ("something else", ServerError),
    ],
)
def test_an_error_before_audio_has_its_kind(message: str, kind: type[OrpheusError]) -> None:
    with pytest.raises(OrpheusError) as caught:
        exchange().feed(Arrived(failing(message), 11.0))
    assert type(caught.value) is kind
    assert caught.value.request_id == "id-1"
    assert str(caught.value) == message.split("] ", 1)[-1]


def test_an_error_after_audio_is_a_broken_stream_that_names_its_cause() -> None:
    run = exchange()
    run.feed(Arrived(response(0), 11.0))
    with pytest.raises(StreamBroken, match="the codec failed") as caught:
        run.feed(Arrived(failing("[INTERNAL] the codec failed"), 11.0))
    assert isinstance(caught.value.__cause__, ServerError)
    assert not caught.value.retryable


@pytest.mark.parametrize(
    ("code", "kind", "retryable"),
    [
        ("UNAVAILABLE", ServerUnavailable, True),
        ("RESOURCE_EXHAUSTED", Overloaded, True),
        ("INVALID_ARGUMENT", InvalidRequest, False),
        ("INTERNAL", ServerError, False),
    ],
)
def test_a_failed_call_has_its_kind(code: str, kind: type[OrpheusError], retryable: bool) -> None:
    with pytest.raises(OrpheusError, match="why") as caught:
        exchange().feed(Failed(code, "why", 11.0))
    assert type(caught.value) is kind
    assert caught.value.retryable is retryable


@pytest.mark.parametrize(("samples", "level"), [(0, 0), (2048, 0), (2048, 50)])
def test_an_utterance_without_a_sound_is_an_error(samples: int, level: int) -> None:
    with pytest.raises(EmptySpeech):
        exchange().feed(Arrived(response(0, samples, "stop", level), 11.0))


def test_a_cancel_that_nobody_here_asked_for_is_an_error() -> None:
    run = exchange()
    run.feed(Arrived(response(0), 11.0))
    with pytest.raises(StreamBroken, match="cancelled"):
        run.feed(Arrived(response(1, finish="cancelled"), 11.0))


def test_deadlines_before_and_after_the_first_audio() -> None:
    run = exchange(Timeouts(first_audio_s=2.0, between_chunks_s=3.0))
    assert run.remaining_s(11.5) == pytest.approx(0.5)
    run.feed(Arrived(response(0, samples=0), 11.9))
    assert run.remaining_s(13.0) == 0.0
    assert isinstance(run.expired(), FirstAudioTimeout)
    run.feed(Arrived(response(1), 11.9))
    assert run.remaining_s(11.9) == pytest.approx(3.0)
    assert isinstance(run.expired(), ChunkTimeout)


def test_the_total_is_counted_from_the_start() -> None:
    run = exchange(Timeouts(total_s=4.0, between_chunks_s=3.0))
    run.feed(Arrived(response(0), 13.5))
    assert run.remaining_s(13.5) == pytest.approx(0.5)
    assert isinstance(run.expired(), TotalTimeout)


def test_without_limits_there_is_no_deadline() -> None:
    assert exchange(Timeouts(first_audio_s=None, between_chunks_s=None)).remaining_s(1e9) is None


@pytest.mark.parametrize("limits", [{"connect_s": None}, {"close_s": None}, {"total_s": 0.0}, {"first_audio_s": -1.0}])
def test_a_limit_must_make_sense(limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(limits))):
        Timeouts(**limits)


def test_retries_are_for_retryable_errors_before_audio_and_are_counted() -> None:
    busy, wrong = Overloaded("busy"), InvalidRequest("wrong")
    run = exchange(retries=2)
    assert run.retry_delay_s(wrong, 11.0) is None
    for _ in range(2):
        delay_s = run.retry_delay_s(busy, 11.0)
        assert delay_s is not None
        assert delay_s > 0
        before = run.request_id
        run.restart(11.0)
        assert run.request_id != before
    assert run.retry_delay_s(busy, 11.0) is None
    heard = exchange(retries=2)
    heard.feed(Arrived(response(0), 11.0))
    assert heard.retry_delay_s(busy, 11.0) is None


def test_a_retry_starts_over_but_the_total_does_not() -> None:
    run = exchange(Timeouts(first_audio_s=2.0, total_s=5.0), retries=9)
    run.feed(Arrived(response(0, samples=0), 11.0))
    run.restart(12.0)
    assert run.remaining_s(12.0) == pytest.approx(2.0)
    assert run.feed(Arrived(response(0), 13.0)) is not None
    late = exchange(Timeouts(total_s=5.0), retries=9)
    assert late.retry_delay_s(Overloaded("busy"), 14.99) is None


def test_given_options_are_sent_and_others_are_not() -> None:
    message = exchange(voice="ada", temperature=0.5, seed=2**40, chunk_frames=0).message()
    sent = {tensor.name: (tensor.datatype, raw) for tensor, raw in zip(message.inputs, message.raw_input_contents, strict=True)}
    assert sent == {
        "TEXT": ("BYTES", b"\x05\0\0\0hello"),
        "VOICE": ("BYTES", b"\x03\0\0\0ada"),
        "TEMPERATURE": ("FP32", np.float32(0.5).tobytes()),
        "SEED": ("INT64", np.int64(2**40).tobytes()),
        "CHUNK_FRAMES": ("INT32", b"\0\0\0\0"),
    }
    assert (message.model_name, message.id) == ("orpheus_tts", "id-1")


@pytest.mark.parametrize(
    ("options", "name"),
    [({"top_k": 2**31}, "TOP_K"), ({"seed": 1.5}, "SEED"), ({"temperature": "hot"}, "TEMPERATURE"), ({"voice": 3}, "VOICE")],
)
def test_what_a_tensor_cannot_hold_is_an_invalid_request(options: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidRequest, match=name):
        exchange(**options).message()


def test_half_a_surrogate_pair_is_an_invalid_request_that_does_not_quote_the_text() -> None:
    run = Exchange(SpeechRequest("secret \ud800"), "orpheus_tts", None, Timeouts(), 0, 0.0)
    with pytest.raises(InvalidRequest, match="TEXT") as caught:
        run.message()
    assert "secret" not in f"{caught.value!r} {caught.value.__cause__!r}"
    assert caught.value.__suppress_context__
    assert "secret" not in repr(SpeechRequest("secret"))


def test_an_unknown_option_is_an_error() -> None:
    with pytest.raises(TypeError, match="speed"):
        exchange(speed=2)


def test_errors_survive_a_process_boundary() -> None:
    import pickle

    for error in (from_stream_message("[UNAVAILABLE] busy", "id-7"), from_status("INTERNAL", "why", "id-7"), ChunkTimeout("late", "id-7")):
        copy = pickle.loads(pickle.dumps(error))
        assert type(copy) is type(error)
        assert (str(copy), copy.request_id, copy.retryable) == (str(error), "id-7", error.retryable)
