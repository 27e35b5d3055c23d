"""What the paper reports is data: each figure stands beside a row, and nothing of it is read for other rows."""

import subprocess
import sys

from softpnet.experiments.paper import figures, stated
from softpnet.experiments.rows import ROWS
from softpnet.report.table import METRICS, PRIMITIVES


def test_every_figure_is_a_share_of_a_known_metric_and_stands_beside_a_row():
    found = {(task, method) for task, methods in figures().items() for method in methods}
    assert found == {(row.task, row.paper) for row in ROWS if row.paper}
    for row in ROWS:
        for metric, figure in stated(row).items():
            assert metric in METRICS | PRIMITIVES
            assert 0 <= figure.mean <= 100 and 0 <= figure.deviation <= 50


def test_some_figures_are_those_of_the_paper():
    """Its headline of each task, typed from its tables a second time."""
    assert figures()["mnist_evenodd"]["softpnet"]["concept_accuracy"] == (96.44, 6.28)
    assert figures()["visual_sudoku"]["pnet_sl"]["label_accuracy"] == (91.21, 2.30)
    assert figures()["kand_logic"]["softpnet"]["label_f1"] == (81.81, 7.65)
    assert figures()["visual_sudoku"]["softpnet_no_population"]["label_f1"] == (2.70, 2.10)


def test_the_rows_of_a_user_are_named_without_reading_the_paper():
    code = (
        "import sys\n"
        "from softpnet.experiments.rows import Row\n"
        "assert 'softpnet.experiments.paper' not in sys.modules\n"
        "from softpnet.experiments import paper\n"
        "assert paper.stated(Row('mine', 'Mine', 'mine.py')) == {}\n"
        "assert paper.figures.cache_info().misses == 0"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
