"""Progress while training: a line on a terminal, and lines in a log that is never silent for long."""

import io
import time
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console
from torch.nn.functional import one_hot

from softpnet import Anchors, ConceptSpace, InputError, Learner, StopTraining, Task
from softpnet.training import display
from softpnet.training.display import QUIET_S, Display
from softpnet.training.loop import Progress

CONCEPTS = torch.randint(2, (12, 2), generator=torch.Generator().manual_seed(0))
DATA = one_hot(CONCEPTS).float(), CONCEPTS.sum(-1), Anchors(torch.eye(2), torch.arange(2))


def learner():
    task = Task(ConceptSpace(slots=2, values=2), lambda c: c.sum(-1))
    return Learner(task, epochs=2, warmup_steps=3, batch_size=4, copies=1)


def test_fit_is_silent_unless_it_is_to_show_progress_and_calls_a_function_of_the_user_in_both_cases(capsys):
    steps = []
    learner().fit(*DATA, progress=steps.append)
    assert capsys.readouterr() == ("", "")
    learner().fit(*DATA, progress=steps.append, verbose=True)
    out = capsys.readouterr().out.splitlines()
    told = [line for line in out if line.startswith(("warming", "epoch"))]
    heads = [line.partition(":")[0] for line in told]
    assert heads == ["warming up on the anchors, step 1/3", "epoch 1/2", "epoch 2/2"]
    assert "KL " in told[-1] and told[-1].endswith(" s") and len(steps) == 2 * (3 + 2 * 3)


def test_on_a_terminal_a_line_moves_and_ends_with_the_training(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(display, "console", lambda error: Console(file=screen, force_terminal=True, width=120))

    def stop(step):
        if step.epoch_done:
            raise StopTraining

    assert len(learner().fit(*DATA, progress=stop, verbose=True).history) == 1
    seen = screen.getvalue()
    assert "compiling the rule and checking the data" in seen and "epoch 1/2" in seen and "\x1b[?25h" in seen


def test_the_terminal_is_given_back_where_fit_is_refused(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(display, "console", lambda error: Console(file=screen, force_terminal=True, width=120))
    with pytest.raises(InputError):
        learner().fit(DATA[0], DATA[1][:3], DATA[2], verbose=True)
    assert screen.getvalue().endswith("\x1b[?25h")


def test_a_log_gets_a_line_at_least_every_ten_minutes(monkeypatch, capsys):
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    model = SimpleNamespace(notes=[], columns=("loss_kl",), settings=SimpleNamespace(epochs=2), is_main_process=True)
    shown, lines = Display(model), []
    for warming_up, steps in ((True, 40), (False, 100)):
        for step in range(steps):
            now += 50
            shown.update(Progress(0, 2, step, steps, {"loss_kl": 0.5}, now, warming_up))
            lines += [(now, line) for line in capsys.readouterr().out.splitlines()]
    times = [0.0, *(at for at, _ in lines)]
    assert max(after - before for before, after in pairwise(times)) <= 600
    assert lines[0] == (50, "warming up on the anchors, step 1/40")
    assert [line for _, line in lines][-1] == "epoch 1/2: KL 0.5; 7e+03 s"
    assert (50 * 43 + QUIET_S, "epoch 1/2, step 9/100: KL 0.5; 2.45e+03 s") in lines
    assert len(lines) == pytest.approx(7000 / QUIET_S, abs=3)
