"""Whatever a file, a table or a record holds, what is printed of it cannot command a terminal."""

import ast
import io
import json
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

import softpnet
from softpnet import terminal
from softpnet.cli import display
from softpnet.cli.main import main
from softpnet.terminal import complain, harmless, say, say_table

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\x08\u202e"
"""Renames the window, clears the screen, turns red, goes back, writes from right to left."""


def assert_harmless(text):
    assert not terminal.COMMANDS.search(text), repr(text)


@pytest.mark.parametrize(
    "text, shown",
    [
        ("plain, größer ± 1\ttab\nline", "plain, größer ± 1\ttab\nline"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\x9b31m", "\\x9b31m"),
        ("a\rb\x00\x7f", "a\\rb\\x00\\x7f"),
        ("\u202etxt.exe", "\\u202etxt.exe"),
        ("\udc1b", "\\udc1b"),
        (Path("a\x1b"), "a\\x1b"),
    ],
)
def test_what_could_command_a_terminal_is_written_out(text, shown):
    assert harmless(text) == shown


def test_all_that_is_printed_goes_through_one_place():
    """In no other file does anything print, or make a console."""
    folder = Path(softpnet.__file__).parent
    for file in folder.rglob("*.py"):
        if file == folder / "terminal.py":
            continue
        nodes: list[Any] = [*ast.walk(ast.parse(file.read_text()))]
        for node in nodes:
            called = node.func if isinstance(node, ast.Call) else None
            name = getattr(called, "id", None) or getattr(called, "attr", None)
            assert name not in ("print", "Console", "print_exc"), f"{file}, line {node.lineno}: {name}"
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "sys":
                assert node.attr != "stderr", f"{file}, line {node.lineno}: sys.stderr"


def test_lines_tables_and_progress_are_harmless(capfd):
    say(EVIL)
    complain(EVIL)
    say_table(EVIL, ["a", EVIL], [["1", f"[bold]{EVIL}[/bold]"]], right=True)
    display.count_up([EVIL], 1)
    out, err = capfd.readouterr()
    assert "owned" in out and "owned" in err and "[bold]" in out
    assert_harmless(out)
    assert_harmless(err)


def test_on_a_terminal_only_rich_s_own_commands_are_left(monkeypatch):
    """The same text without what the table holds of commands is drawn by the same ones."""

    def drawn(text):
        screen = io.StringIO()
        screen.isatty = lambda: True
        monkeypatch.setattr(sys, "stdout", screen)
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.setenv("COLUMNS", "200")
        say_table("title", ["head"], [[text]])
        return screen.getvalue()

    assert drawn(EVIL) == drawn(harmless(EVIL)) and "\x1b" in drawn(EVIL)


def test_what_a_terminal_of_few_letters_cannot_show_is_written_out(monkeypatch):
    screen = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", screen)
    say("mean ± deviation", flush=True)
    assert screen.buffer.getvalue() == b"mean \\xb1 deviation\n"


@pytest.fixture
def command(monkeypatch, capfd, tmp_path):
    """Run `softpnet ...` here: exit code, and all that it said."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["softpnet", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capfd.readouterr()
        return left.value.code, out + err

    yield run
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    "arguments",
    [
        ("train", f"{EVIL}.py"),
        ("train", EVIL),
        ("train", "kand_logic", "--seed", EVIL),
        ("train", "kand_logic", f"--{EVIL}"),
        ("train", "kand_logic", "--option", EVIL),
        ("train", "kand_logic", "--option", f"crop={EVIL}"),
        ("train", "kand_logic", "--target", EVIL),
        ("predict", f"run{EVIL}", "a.png"),
        ("evaluate", f"run{EVIL}"),
        ("table", "--records", f"results{EVIL}"),
        ("table", "--into", f"page{EVIL}.md", EVIL),
        ("check", f"{EVIL}.py"),
    ],
)
def test_an_error_about_an_argument_is_harmless(command, arguments):
    code, said = command(*arguments)
    assert code == 2 and "owned" in said
    assert_harmless(said)


RULE = """
import torch, warnings, softpnet
EVIL = {evil!r}
def data(streams):
    warnings.warn(EVIL)
    raise {error}(EVIL)
task = softpnet.Task(softpnet.ConceptSpace(slots=1, values=2), lambda c: c[..., 0], data=data)
"""


@pytest.mark.parametrize("error", ["ValueError", "OSError", "softpnet.InputError"])
def test_what_a_user_s_code_says_is_harmless(command, tmp_path, error):
    (tmp_path / "mine.py").write_text(RULE.format(evil=EVIL, error=error))
    for name in ("train", "check"):
        code, said = command(name, "mine.py")
        assert code and "owned" in said
        assert_harmless(said)


def test_a_traceback_is_harmless(command, capfd):
    command("tasks")
    try:
        raise RuntimeError(EVIL)
    except RuntimeError as error:
        sys.excepthook(type(error), error, error.__traceback__)
    said = capfd.readouterr().err
    assert said.startswith("Traceback") and "owned" in said
    assert_harmless(said)


def test_the_name_of_a_machine_that_holds_a_run_is_harmless(command, tmp_path):
    import fcntl

    from softpnet.training.lock import LOCK

    (tmp_path / "run").mkdir()
    lock = tmp_path / "run" / LOCK
    with lock.open("w") as held:
        held.write(json.dumps({"process": 1, "host": EVIL}))
        held.flush()
        fcntl.flock(held, fcntl.LOCK_EX)
        options = ["--option", "train=20", "--option", "test=2", "--option", "cached=50"]
        code, said = command("train", "kand_logic", *options, "--out", "run", "--epochs", 1, "--targets", "kbest")
    assert code == 2 and "in use by process 1 on" in said and "owned" in said
    assert_harmless(said)
