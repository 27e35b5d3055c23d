"""The curves of `bench.learning`: concept accuracy against seconds of training, a panel per contest."""

from __future__ import annotations

from pathlib import Path

from softpnet.report.canvas import COLOURS, page

PANEL, GAP, LEGEND = 2.0, 0.5, 2.4  # inches


def draw(path: Path, rows: list[dict]) -> None:
    """One line per contender, of its first seed; the axis begins where the first reading is."""
    contests = list(dict.fromkeys(row["contest"] for row in rows))
    names = list(dict.fromkeys(row["name"] for row in rows))
    height = len(contests) * (PANEL + GAP) + GAP
    with page(path, height) as (_, place):
        for panel, contest in enumerate(contests):
            axes = place(GAP, height - (panel + 1) * (PANEL + GAP), 7.2 - GAP - LEGEND, PANEL)
            shown = [row for row in rows if row["contest"] == contest and row["curves"][0]]
            for row in shown:
                seconds, concept, _ = zip(*row["curves"][0], strict=True)
                axes.plot(
                    seconds,
                    [100 * share for share in concept],
                    color=COLOURS[names.index(row["name"]) % len(COLOURS)],
                    linestyle="-" if names.index(row["name"]) % 2 == 0 else "--",
                    linewidth=1.0,
                    label=row["name"],
                )
            top = 100 * shown[0]["ceiling"]
            axes.set(title=contest, xlabel="seconds of training", ylabel="concepts read right, %")
            axes.set(xscale="log", ylim=(0.85 * top, min(100.2, 1.01 * top)))
            axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), frameon=False)
