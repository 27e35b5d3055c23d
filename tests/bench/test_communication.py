"""What processes say to each other: counted in a training's own steps, and the page shows the record."""

import json
from pathlib import Path

import pytest
import torch
from torch import distributed

from bench import communication, steps_together
from softpnet.training.loop import Progress

ROOT = Path(__file__).parents[2]


def test_messages_are_those_between_two_steps(monkeypatch, tmp_path):
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    try:
        monkeypatch.setattr(steps_together, "sent", iter([100, 700]).__next__)
        count = steps_together.Counted()
        with pytest.raises(steps_together.StopTraining):
            for step in range(100):
                for _ in range(2):
                    distributed.all_reduce(torch.ones(3))
                distributed.broadcast(torch.ones(3), 0)
                count(Progress(0, 1, step, 100, {}, 0.0))
    finally:
        distributed.destroy_process_group()
    assert step + 1 == steps_together.SKIPPED + steps_together.COUNTED
    assert count.found() == {"messages": {"allreduce": 2.0, "broadcast": 1.0}, "bytes": 60}


def test_the_page_has_the_tables_of_the_record():
    rows = json.loads((ROOT / "results/bench.json").read_text())[communication.PART]["rows"]
    assert communication.tables(rows) in (ROOT / "docs/performance.md").read_text()
    # The bytes at the interface are those of the gradients, and little else, unless the batch is what is talked about.
    for row in rows:
        assert 1 < row["bytes"] / communication.ring_bytes(row["weights"], row["processes"]) < 1.5
