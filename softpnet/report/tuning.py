"""A study to look at: its trials as a table, and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softpnet.experiments.tuning.outcome import COMPLETE, PRUNED, Outcome, best_of
from softpnet.experiments.tuning.plan import Plan
from softpnet.report.canvas import COLOURS, MARGIN, WIDTH, columns_of, page
from softpnet.report.summary import Summary, compare
from softpnet.report.table import Text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKS: dict[str, dict[str, Any]] = {
    COMPLETE: {"color": COLOURS[0], "marker": "o"},
    PRUNED: {"color": COLOURS[2], "marker": "x"},
}


def judged_by(plan: Plan) -> str:
    """The metric in words."""
    return f"validation {plan.metric.replace('_', ' ')}"


def trial_table(plan: Plan, trials: Sequence[Outcome]) -> Text:
    """A line per trial: what was tried, how it came out, and how much more than the default that is."""
    best, default = best_of(trials), next((trial for trial in trials if trial.number == 0), None)
    head = ["trial", *plan.space, f"{judged_by(plan)}, %", "over the default", ""]
    return Text(
        f"{plan.task.name}: {len(trials)} trials", head, [_line(plan, trial, best, default) for trial in trials]
    )


def _line(plan: Plan, trial: Outcome, best: Outcome | None, default: Outcome | None) -> list[str]:
    value = trial.value if trial.state in MARKS else None
    over = ""
    if trial.number and trial.state == COMPLETE and default is not None and default.state == COMPLETE:
        over = f"{100 * ((trial.value or 0) - (default.value or 0)):+.2f}"
    said = [] if trial.state == COMPLETE else [trial.state]
    said += [f"after epoch {trial.pruned_after}"] if trial.state == PRUNED else []
    said += [trial.error[:100]] if trial.error else []
    said += ["best"] if best is not None and trial.number == best.number else []
    values = [_short(_value(plan, trial, name)) for name in plan.space]
    name = f"{trial.number}, default" if trial.number == 0 else str(trial.number)
    return [name, *values, "" if value is None else f"{100 * value:.2f}", over, " ".join(said)]


def _value(plan: Plan, trial: Outcome, name: str) -> Any:
    """Of a setting in a trial; one whose default is not among the values searched has it in trial 0 alone."""
    return trial.values.get(name, getattr(plan.settings, name) if trial.number == 0 else None)


def _short(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def trial_picture(path: Path, plan: Plan, trials: Sequence[Outcome]) -> None:
    """Above, trial by trial and the best so far; below, a panel per setting: what its values gave."""
    judged = [trial for trial in trials if trial.state in MARKS and trial.value is not None]
    columns = min(columns_of(len(plan.space)), 4)
    lines = -(-len(plan.space) // columns)
    high, low, left = 1.9, 1.55, 0.5  # inches: a panel above, one below, room for its numbers
    height = high + lines * low
    wide = (WIDTH - 2 * MARGIN) / columns
    with page(path, height) as (_, place):
        axes = place(MARGIN + left, height - high + 0.4, WIDTH - 2 * MARGIN - left, high - 0.65)
        _course(axes, plan, judged)
        for at, name in enumerate(plan.space):
            x, y = MARGIN + at % columns * wide, height - high - (at // columns + 1) * low
            _panel(place(x + left, y + 0.4, wide - left - 0.1, low - 0.5), plan, judged, name)


def _course(axes: Axes, plan: Plan, judged: Sequence[Outcome]) -> None:
    from matplotlib.ticker import MaxNLocator

    _points(axes, judged, [trial.number for trial in judged])
    complete = [trial for trial in judged if trial.state == COMPLETE]
    if complete:
        best = [
            max(100 * each.value for each in complete[: at + 1] if each.value is not None)
            for at in range(len(complete))
        ]
        numbers = [trial.number for trial in complete]
        axes.step(numbers, best, where="post", lw=0.9, color=COLOURS[0], label="best so far")
        if complete[0].number == 0:
            axes.axhline(best[0], lw=0.8, ls="--", color=COLOURS[9], label="default")
    axes.set(title=f"{plan.task.name}: {judged_by(plan)}, %", xlabel="trial")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(frameon=False, fontsize=6, loc="lower right", bbox_to_anchor=(1, 1), borderpad=0, ncols=4)
    _plain(axes)


def _panel(axes: Axes, plan: Plan, judged: Sequence[Outcome], name: str) -> None:
    searched, given = plan.space[name], [_value(plan, trial, name) for trial in judged]
    there = [(trial, value) for trial, value in zip(judged, given, strict=True) if value is not None]
    if searched.is_range:
        places = [value for _, value in there]
        axes.set_xscale("log" if searched.is_log else "linear")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.xaxis.set_minor_formatter("")  # a short log axis would name all of its small ticks
    else:
        values = dict.fromkeys([*searched.values, *(value for _, value in there)])
        ordered = sorted(values) if all(isinstance(value, (int, float)) for value in values) else values
        names = [str(value) for value in ordered]
        places = [names.index(str(value)) for _, value in there]
        axes.set(xticks=range(len(names)), xticklabels=names, xlim=(-0.5, len(names) - 0.5))
    _points(axes, [trial for trial, _ in there], places)
    axes.set_xlabel(name)
    _plain(axes)


def _points(axes: Axes, trials: Sequence[Outcome], places: Sequence[Any]) -> None:
    for state, style in MARKS.items():
        here = [
            (place, 100 * trial.value)
            for trial, place in zip(trials, places, strict=True)
            if trial.state == state and trial.value is not None
        ]
        if here:
            axes.plot(*zip(*here, strict=True), lw=0, ms=3.5, mew=0.9, alpha=0.8, label=state, **style)


def _plain(axes: Axes) -> None:
    axes.grid(axis="y", lw=0.3, color="#bbbbbb")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def verdict(summaries: Sequence[Summary]) -> list[str]:
    """Of the best settings and the default, by metric: how much better, and whether chance may have made it."""
    best, default = summaries
    said = []
    for metric in ("concept_accuracy", "label_accuracy"):
        found = compare(best, default, metric)
        if found is not None:
            out = "leaves out zero" if found.low > 0 or found.high < 0 else "holds zero"
            said.append(
                f"{metric.replace('_', ' ')} on test data: {found.mean:+.2f} points over the default ({found.seeds} "
                f"new seeds, 95 % interval {found.low:+.2f} to {found.high:+.2f}, which {out})"
            )
    return said
