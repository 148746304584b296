"""Pictures of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

INK, SOFT, WARM = "#1f4e79", "#7fa7c9", "#c0504d"


def sweep(rows: Sequence[Mapping[str, Any]], title: str, path: Path) -> None:
    """Time to first audio, chunk gaps, and playback against the number of streams."""
    at = [row["concurrency"] for row in rows]
    figure, (first, gaps, play) = plt.subplots(1, 3, figsize=(13, 3.8), constrained_layout=True)
    for name, colour, label in (("p50", INK, "median"), ("p95", SOFT, "95 %"), ("p99", WARM, "99 %")):
        first.plot(at, [row[f"first_audio_{name}_ms"] for row in rows], "o-", color=colour, label=label)
    first.set(title="time to first audio", ylabel="ms")
    for name, colour, label in (("p50", INK, "median"), ("p95", SOFT, "95 %"), ("max", WARM, "longest")):
        gaps.plot(at, [row[f"gap_{name}_ms"] for row in rows], "o-", color=colour, label=label)
    gaps.set(title="between two chunks", ylabel="ms")
    play.plot(at, [row["times_real_time"] for row in rows], "o-", color=INK, label="all together, times real time")
    play.plot(
        at,
        [100 * row["streams_with_underruns"] / max(1, row["streams"]) for row in rows],
        "o-",
        color=WARM,
        label="streams that ran dry, %",
    )
    play.set(title="throughput and playback")
    for axes in (first, gaps, play):
        axes.set_xscale("log", base=2)
        axes.set_xticks(at, [f"{value}" for value in at])
        axes.set_xlabel("streams at a time")
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=8)
    figure.suptitle(title, fontsize=10)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def bars(values: Mapping[str, Mapping[str, float]], title: str, path: Path) -> None:
    """Panels of one figure each: panel title -> bar label -> value."""
    figure = plt.figure(figsize=(4.2 * len(values), 3.4), constrained_layout=True)
    for number, (heading, of) in enumerate(values.items(), 1):
        axes = figure.add_subplot(1, len(values), number)
        drawn = axes.barh(list(of), list(of.values()), color=[INK if label.startswith("ours") else SOFT for label in of])
        axes.bar_label(drawn, fmt="%.3g", padding=3, fontsize=8)
        axes.invert_yaxis()
        axes.margins(x=0.15)
        axes.set_title(heading, fontsize=9)
    figure.suptitle(title, fontsize=10)
    figure.savefig(path, dpi=110)
    plt.close(figure)
