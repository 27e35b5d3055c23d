import subprocess

from softpnet.training.environment import _commit


def test_the_commit_is_the_last_one_that_changed_the_package_so_docs_do_not_begin_runs_again(tmp_path):
    def git(*given):
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        done = subprocess.run(["git", "-C", str(tmp_path), *who, *given], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert _commit(tmp_path) == ""
    git("init")
    (tmp_path / "softpnet").mkdir()
    for name in ("softpnet/code.py", "docs.md"):
        (tmp_path / name).write_text(name)
        git("add", name)
        git("commit", "-m", name)
    assert _commit(tmp_path) == git("rev-parse", "HEAD~1")
    (tmp_path / "docs.md").write_text("changed")
    assert _commit(tmp_path) == git("rev-parse", "HEAD~1")
    (tmp_path / "softpnet" / "code.py").write_text("changed")
    assert _commit(tmp_path) == git("rev-parse", "HEAD~1") + "+"
