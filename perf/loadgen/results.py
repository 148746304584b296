"""Results as files: JSON with every input and raw figure, CSV of the table, and the table for people."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from loadgen.driver import Record
from loadgen.machine import fingerprint

RESULTS = Path(__file__).resolve().parents[1] / "results"


def report(inputs: Mapping[str, Any], **figures: Any) -> dict[str, Any]:
    """The frame of every result. Call it before the measurement: the load average is part of the fingerprint."""
    return {"machine": fingerprint(), "command": [Path(sys.argv[0]).name, *sys.argv[1:]], "inputs": dict(inputs), **figures}


def save(path: Path, content: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(f"-> {path}", file=sys.stderr)


def save_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def save_table(path: Path, title: str, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> None:
    """For people; printed too."""
    table = markdown(rows, columns)
    path.write_text(f"# {title}\n\n{table}\n", encoding="utf-8")
    print(table)


def save_all(stem: Path, content: Mapping[str, Any], title: str, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> None:
    """`content` as .json, `rows` as .csv, and those of their columns that are for people as .md."""
    save(stem.with_suffix(".json"), content)
    save_rows(stem.with_suffix(".csv"), rows)
    save_table(stem.with_suffix(".md"), title, rows, columns)


def machine_line(content: Mapping[str, Any]) -> str:
    """Of a `report`: the machine in a few words, for titles."""
    machine = content["machine"]
    return f"{machine['processor']}, {machine['cores']} cores, {machine['measured_at'][:10]}"


def raw(records: Sequence[Record], start_delay_s: float) -> list[dict[str, Any]]:
    """One small line for each stream; milliseconds."""

    def ms(value: float | None) -> float | None:
        return None if value is None else round(1000 * value, 1)

    return [
        {
            "began_s": round(record.began_s, 3),
            "late_ms": ms(record.late_s),
            "characters": record.characters,
            "failure": record.run.failure,
            "first_audio_ms": ms(record.run.timings.time_to_first_audio_s),
            "first_audible_ms": ms(record.run.timings.time_to_first_audible_s),
            "total_ms": ms(record.run.timings.total_s),
            "audio_ms": ms(record.run.timings.audio_s),
            "chunks": len(record.run.timings.chunk_samples),
            "underruns_ms": [ms(underrun.duration_s) for underrun in record.run.timings.underruns(start_delay_s)],
        }
        for record in records
    ]


def row(label: Mapping[str, Any], summary: Mapping[str, Any], statistics: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """A line of the tables: `label`, then milliseconds and counts of one point."""

    def ms(name: str, percentile: str) -> float | None:
        spread = summary[name]
        return None if spread is None else round(1000 * spread[percentile], 1)

    factor = summary["real_time_factor"]
    return {
        **label,
        "streams": summary["complete"],
        "failed": sum(summary["failures"].values()),
        **{f"first_audio_{p}_ms": ms("time_to_first_audio_s", p) for p in ("p50", "p90", "p95", "p99")},
        "first_audible_p50_ms": ms("time_to_first_audible_s", "p50"),
        **{f"gap_{p}_ms": ms("gap_s", p) for p in ("p50", "p95", "max")},
        "real_time_factor_p50": None if factor is None else round(factor["p50"], 3),
        "streams_with_underruns": summary["streams_with_underruns"],
        "underrun_s": round(summary["underrun_s"], 3),
        "times_real_time": round(summary["times_real_time"], 2),
        "codec_batch": statistics.get("snac_decoder", {}).get("mean_batch"),
    }


def markdown(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> str:
    """Of `rows`, the columns named in `columns` (name -> heading)."""
    lines = [f"| {' | '.join(columns.values())} |", f"|{' --- |' * len(columns)}"]
    for of in rows:
        cells = ["-" if of[name] is None else f"{of[name]:g}" if isinstance(of[name], float) else f"{of[name]}" for name in columns]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
