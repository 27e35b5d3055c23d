"""Errors that a person can act on: what was found, what was expected, what to do."""


class SoftPNetError(Exception):
    """Base of every error this library raises on purpose; the command line prints it as one sentence."""


class TaskError(SoftPNetError, ValueError):
    """The task (its space, rule, rows or moves) is not what it must be."""


class InputError(SoftPNetError, ValueError):
    """The data or an option handed in is not what was expected."""


class TrainingError(SoftPNetError, RuntimeError):
    """Training cannot go on."""


class StorageError(SoftPNetError, OSError):
    """A file could not be written."""
