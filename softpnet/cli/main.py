"""`softpnet COMMAND ...`"""

from __future__ import annotations

import contextlib
import io
import signal
import sys
import traceback
import warnings
from functools import partial
from typing import Annotated, Any, NoReturn

import tyro

from softpnet.cli.catalogue import Methods, Tasks
from softpnet.cli.check import Check
from softpnet.cli.compare import Compare
from softpnet.cli.evaluate import Evaluate
from softpnet.cli.export import Export
from softpnet.cli.options import explained
from softpnet.cli.predict import Predict
from softpnet.cli.report import Report
from softpnet.cli.reproduce import Reproduce
from softpnet.cli.rule import Rule
from softpnet.cli.search import Search
from softpnet.cli.suggest import Suggest
from softpnet.cli.table import ResultTable
from softpnet.cli.train import INTERRUPTED, Train
from softpnet.errors import EchoedError, InputError, ShareWarning, SoftPNetError, describe
from softpnet.terminal import complain, harmless, open_closed_streams, silence, unless_gone
from softpnet.training.allocator import keep_large_blocks
from softpnet.training.interrupt import ENDINGS, heeded
from softpnet.training.launcher import is_first
from softpnet.training.memory import memory_errors_named
from softpnet.training.notes import leave_note

COMMANDS = {
    "train": Train,
    "check": Check,
    "rule": Rule,
    "compare": Compare,
    "search": Search,
    "evaluate": Evaluate,
    "predict": Predict,
    "suggest": Suggest,
    "export": Export,
    "report": Report,
    "reproduce": Reproduce,
    "table": ResultTable,
    "tasks": Tasks,
    "methods": Methods,
}


def main() -> None:
    """Run the command line; an error made on purpose is one sentence on stderr and exit code 2."""
    open_closed_streams()
    # Wherever they are met, these end it with their own code; while training, `fit` makes a checkpoint first.
    for ending in heeded(ENDINGS):
        signal.signal(ending, lambda number, frame: sys.exit(128 + number))
    warnings.showwarning = _warn
    sys.excepthook = lambda kind, error, trace: complain("".join(traceback.format_exception(error)).rstrip())
    command: Any = None
    for name, options in COMMANDS.items():
        one: Any = Annotated[options, tyro.conf.subcommand(name)]
        command = one if command is None else command | one
    try:
        chosen, unknown = _parsed(command, sys.argv[1:])
        if unknown:
            raise InputError(explained(sys.argv[1:], COMMANDS, unknown))
        keep_large_blocks()
        with memory_errors_named("this command", "give it less at once, or a larger machine"):
            code = chosen.run()
        with unless_gone():
            sys.stdout.flush()
        # All is done: from here on a signal could only change the exit code, while Python takes itself down.
        for ending in ENDINGS:
            signal.signal(ending, signal.SIG_IGN)
        sys.exit(code)
    except EchoedError as error:
        if error.aloud:
            complain(f"softpnet: {error}")
        sys.exit(2)
    except SoftPNetError as error:
        _fail(str(error))
    except BrokenPipeError:
        # Whoever read our output has gone; what is still in the buffer must not be tried again at the end.
        silence(sys.stdout)
        sys.exit(1)
    except OSError as error:
        _fail(f"{error.strerror or error}" + (f": {error.filename}" if error.filename else ""))
    except KeyboardInterrupt:
        # Impatient further ones would only disturb Python while it waits for what it has already told to stop.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.exit(INTERRUPTED)
    except SystemExit as left:
        if left.code:
            leave_note(f"it left with {left.code!r:.200}")
        raise
    except Exception as error:
        leave_note(describe(error))
        raise


def _fail(why: str) -> NoReturn:
    """Say why, also to those that wait to train together with this process."""
    complain(f"softpnet: {why}")
    leave_note(why)
    sys.exit(2)


def _warn(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    """Of several processes that train together the first one says what all of them see."""
    if is_first() or issubclass(category, ShareWarning):
        complain(f"softpnet: warning: {message}")


def _parsed(command: Any, arguments: list[str]) -> tuple[Any, list[str]]:
    """The command of these arguments, and those that are no options of it; help is printed, and ends it all."""
    parse = partial(
        tyro.cli,
        command,
        prog="softpnet",
        description="Learn the concepts behind labels from a rule and one labelled example per concept.",
        return_unknown_args=True,
    )
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # where some errors are printed whatever `console_outputs` is
            return parse(args=arguments, console_outputs=False)
    except SystemExit as left:
        if left.code:
            raise InputError(explained(arguments, COMMANDS)) from None
        if {"-h", "--help"} & set(arguments):
            parse(args=[harmless(argument) for argument in arguments])
        raise


if __name__ == "__main__":
    main()
