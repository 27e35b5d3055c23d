"""Shared by all tests: one thread, so that timings and bits do not depend on the machine's load."""

import os

import pytest
import torch

from softpnet.training.folder import RunFolder

os.environ["OMP_NUM_THREADS"] = "1"  # for the processes that tests start


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture
def list_again():
    """Make the manifest of a run folder fit whatever its files hold now, as someone who forges them would."""

    def forge(folder):
        run = RunFolder(folder)
        for name in list(run.listed):
            run.write(name, (folder / name).read_bytes())

    return forge
