import os
import subprocess

from softpnet.training.environment import _commit


def test_the_commit_is_the_last_one_that_changed_the_package_so_docs_do_not_begin_runs_again(tmp_path, monkeypatch):
    # Run from a git hook, the test must not touch the repository that the hook is of.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    alone = kept | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}

    def git(*given):
        command = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org", *given]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=alone).stdout.strip()

    assert _commit(tmp_path) == ""
    git("init")
    (tmp_path / "softpnet").mkdir()
    for name in ("softpnet/code.py", "docs.md"):
        (tmp_path / name).write_text(name)
        git("add", name)
        git("commit", "-m", name)
    code = git("rev-parse", "HEAD~1")
    assert _commit(tmp_path) == code
    (tmp_path / "docs.md").write_text("changed")
    assert _commit(tmp_path) == code
    (tmp_path / "softpnet" / "code.py").write_text("changed")
    assert _commit(tmp_path) == code + "+"
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert _commit(tmp_path) == code + "+"
