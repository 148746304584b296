"""Tables, statistics and the difference from the exact decode."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from loadgen import results, triton_statistics
from loadgen.driver import Record
from loadgen.exactness import difference
from loadgen.triton_statistics import Counts
from orpheus_client.measuring import Run, summarise
from orpheus_client.timings import Timings

WHOLE = (np.sin(np.arange(4000) / 7) * 8000).astype(np.int16)


def test_equal_samples_have_no_error() -> None:
    assert difference([WHOLE], [WHOLE]).error_db is None
    assert difference([WHOLE], [WHOLE]).lost_samples == 0


def test_lost_samples_are_counted_and_the_rest_compared_in_place() -> None:
    apart = difference([WHOLE], [WHOLE[1000:3500]], lost_at_start=1000)
    assert (apart.lost_samples, apart.error_db) == (1500, None)
    assert difference([WHOLE], [WHOLE[1000:3500]]).error_db is not None, "the same samples one place off"


def test_the_error_is_a_ratio_of_powers() -> None:
    loud = np.full(1000, 10_000, np.int16)
    assert difference([loud], [loud - 100]).error_db == pytest.approx(-40.0)


def test_more_samples_than_the_whole_are_refused() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        difference([WHOLE[:10]], [WHOLE[:11]])


def test_triton_statistics_are_of_the_time_between() -> None:
    before = {"snac_decoder": Counts(10, 10, 1_000_000, 5_000_000)}
    after = {"snac_decoder": Counts(30, 15, 41_000_000, 105_000_000), "orpheus_lm": Counts(0, 0, 0, 0)}
    assert triton_statistics.difference(before, after) == {
        "snac_decoder": {"requests": 20, "mean_batch": 4.0, "queue_ms": 2.0, "compute_ms": 5.0}
    }


def record(first_s: float, chunk_s: float, failure: str = "") -> Record:
    timings = Timings(1000, (first_s, first_s + 0.3), (100, 100), 50, first_s + 0.3)
    return Record(Run(timings, failure), 10, 1.0, 0.001 * chunk_s)


def test_a_row_counts_failures_apart_and_has_milliseconds() -> None:
    records = [record(0.1, 1), record(0.3, 1), record(9.0, 1, "Cancelled")]
    row = results.row({"n": 3}, summarise([of.run for of in records], 2.0), {"snac_decoder": {"mean_batch": 1.5}})
    assert (row["n"], row["streams"], row["failed"], row["codec_batch"]) == (3, 2, 1, 1.5)
    assert row["first_audio_p50_ms"] == pytest.approx(200.0)
    assert row["streams_with_underruns"] == 2
    assert row["underrun_s"] == pytest.approx(0.4)


def test_a_point_where_all_failed_is_still_a_row() -> None:
    row = results.row({}, summarise([record(0.1, 1, "Unavailable").run], 1.0), {})
    assert (row["streams"], row["failed"], row["first_audio_p50_ms"], row["codec_batch"]) == (0, 1, None, None)
    assert results.markdown([row], {"first_audio_p50_ms": "first"}).splitlines()[-1] == "| - |"


def test_files_hold_every_figure(tmp_path: Path) -> None:
    rows = [{"a": 1, "b": 0.25}, {"a": 2, "b": None}]
    content = results.report({"streams": 2}, rows=rows)
    results.save(tmp_path / "deep" / "x.json", content)
    results.save_rows(tmp_path / "deep" / "x.csv", rows)
    results.save_table(tmp_path / "deep" / "x.md", "Title", rows, {"b": "B"})
    read = json.loads((tmp_path / "deep" / "x.json").read_text())
    assert read["rows"] == rows
    assert {"processor", "cores", "commit", "packages", "load_average"} <= set(read["machine"])
    assert list(csv.DictReader((tmp_path / "deep" / "x.csv").open())) == [{"a": "1", "b": "0.25"}, {"a": "2", "b": ""}]
    assert (tmp_path / "deep" / "x.md").read_text() == "# Title\n\n| B |\n| --- |\n| 0.25 |\n| - |\n"
    assert read["machine"]["processor"] in results.machine_line(content)


def test_one_line_for_each_stream() -> None:
    (line,) = results.raw([record(0.1, 2)], 0.0)
    assert (line["first_audio_ms"], line["audio_ms"], line["chunks"]) == (100.0, 200.0, 2)
    assert line["underruns_ms"] == [pytest.approx(200.0)]
    assert line["late_ms"] == 2.0
