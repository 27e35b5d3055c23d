"""The curves of `bench.learning`: concept accuracy against seconds of training, a panel per contest."""

from __future__ import annotations

from pathlib import Path

from softpnet.report.canvas import COLOURS, page

PANEL, GAP, LEGEND = 2.0, 0.7, 2.4  # inches
STYLES = ("-", "--", ":")  # of no common divisor with the colours, so that 30 contenders look different


def draw(path: Path, rows: list[dict]) -> None:
    """One line per contender, of its first seed, from 85 % of the ceiling up."""
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    contests = list(dict.fromkeys(row["contest"] for row in rows))
    names = list(dict.fromkeys(row["name"] for row in rows))
    height = len(contests) * (PANEL + GAP) + GAP
    with page(path, height) as (_, place):
        for panel, contest in enumerate(contests):
            axes = place(GAP, height - (panel + 1) * (PANEL + GAP), 7.2 - GAP - LEGEND, PANEL)
            shown = [row for row in rows if row["contest"] == contest and row["curves"][0]]
            for row in shown:
                seconds, concept, _ = zip(*row["curves"][0], strict=True)
                number = names.index(row["name"])
                axes.plot(
                    seconds,
                    [100 * share for share in concept],
                    color=COLOURS[number % len(COLOURS)],
                    linestyle=STYLES[number % len(STYLES)],
                    linewidth=1.0,
                    marker=".",  # a race may be over at the first reading
                    markersize=3,
                    label=row["name"],
                )
            top = 100 * shown[0]["ceiling"]
            axes.set(title=contest, xlabel="seconds of training", ylabel="concepts read right, %")
            axes.set(xscale="log", ylim=(0.85 * top, min(100.2, 1.01 * top)))
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter(FormatStrFormatter("%g"))
            axes.xaxis.set_minor_formatter(NullFormatter())
            axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), frameon=False)
