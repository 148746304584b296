"""perf_analyzer's export becomes the same figures as our own load generator's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from loadgen import perf_analyzer
from loadgen.perf_analyzer import NoPerfAnalyzerError, PerfAnalyzer, find_perf_analyzer, read_export
from support.programs import executable


def request(at_ns: int, *chunks: tuple[int, Any, str], text: str = "Yes.") -> dict[str, Any]:
    """chunks: nanoseconds after the request, samples as exported, finish reason."""
    return {
        "timestamp": at_ns,
        "request_inputs": {"TEXT": text},
        "response_timestamps": [at_ns + after for after, _, _ in chunks],
        "response_outputs": [{"AUDIO": audio, "INDEX": i, "FINISH_REASON": reason} for i, (_, audio, reason) in enumerate(chunks)],
    }


def export(*requests: dict[str, Any]) -> dict[str, Any]:
    return {"experiments": [{"requests": list(requests)}]}


LOUD = [2000] * 4800


def test_times_are_of_each_request_and_the_wall_is_of_all() -> None:
    records, wall_s = read_export(
        export(
            request(3_000_000_000, (80_000_000, LOUD, "stop")), request(2_000_000_000, (50_000_000, LOUD, ""), (250_000_000, LOUD, "stop"))
        )
    )
    first, second = records
    assert (first.began_s, second.began_s) == (0.0, 1.0)
    assert first.run.timings.time_to_first_audio_s == pytest.approx(0.05)
    assert first.run.timings.gaps_s == pytest.approx([0.2])
    assert first.run.timings.audio_s == pytest.approx(0.4)
    assert [record.run.failure for record in records] == ["", ""]
    assert wall_s == pytest.approx(1.08)


def test_a_bare_number_is_one_sample_and_an_empty_string_none() -> None:
    (record,), _ = read_export(export(request(0, (1, LOUD, ""), (2, 7, ""), (3, "", "stop"))))
    assert record.run.timings.audio_s * 24000 == pytest.approx(4801)
    assert record.run.failure == ""


@pytest.mark.parametrize(
    ("chunks", "failure"),
    [
        ([(1, "", "stop")], "EmptySpeech"),
        ([(1, [0] * 4800, "stop")], "EmptySpeech"),
        ([(1, LOUD, "length")], "Ended:length"),
        ([(1, LOUD, "")], "Ended:"),
    ],
)
def test_what_a_listener_cannot_have_heard_has_failed(chunks: list[Any], failure: str) -> None:
    (record,), _ = read_export(export(request(0, *chunks)))
    assert record.run.failure == failure


def test_an_error_and_a_missing_chunk_have_failed() -> None:
    broken, reordered = request(0, (1, LOUD, ""), (2, LOUD, "stop")), request(1, (1, LOUD, ""), (2, LOUD, "stop"))
    broken["response_outputs"][1] = {}
    reordered["response_outputs"][1]["INDEX"] = 2
    records, _ = read_export(export(broken, reordered))
    assert [record.run.failure for record in records] == ["NoAudio", "OutOfOrder"]


def test_too_little_speech_for_the_text_has_failed() -> None:
    (record,), _ = read_export(export(request(0, (1, LOUD, "stop"), text="A sentence that takes longer than a fifth of a second.")))
    assert record.run.failure == "TooShort"


@pytest.mark.parametrize(("script", "version"), [("echo 1.2 >&2", "1.2"), ("echo one; echo two", "two"), ("true", "perf_analyzer")])
def test_the_version_is_read_wherever_it_is_said(tmp_path: Path, script: str, version: str) -> None:
    assert PerfAnalyzer(executable(tmp_path / "tool", script)).version() == version


def test_a_tool_that_does_not_run_says_why(tmp_path: Path) -> None:
    with pytest.raises(NoPerfAnalyzerError, match="no such library"):
        PerfAnalyzer(executable(tmp_path / "tool", "echo no such library >&2; exit 127")).version()


def test_the_named_tool_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(perf_analyzer.VARIABLE, "/somewhere/perf_analyzer")
    assert find_perf_analyzer(tmp_path) == PerfAnalyzer(Path("/somewhere/perf_analyzer"))


def test_a_processor_without_a_wheel_is_an_error_that_names_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(perf_analyzer.VARIABLE, raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}")
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(NoPerfAnalyzerError, match=f"riscv64.*{perf_analyzer.VARIABLE}"):
        find_perf_analyzer(tmp_path / "none")


def test_what_the_tool_says_when_it_fails_reaches_the_user(tmp_path: Path) -> None:
    tool = PerfAnalyzer(executable(tmp_path / "tool", "echo model not found >&2; exit 99"))
    with pytest.raises(RuntimeError, match=r"99[\s\S]*model not found"):
        perf_analyzer.sweep_point(tool, "localhost:1", ["Yes."], 1, 1)
