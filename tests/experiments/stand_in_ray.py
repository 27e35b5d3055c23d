"""A stand-in for Ray that calls what it is given in threads of this process, on nodes that are only named."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for_all
from types import SimpleNamespace


class RayError(Exception):
    """A node or a worker is lost."""


class RayTaskError(RayError):
    def __init__(self, cause):
        super().__init__(str(cause))
        self.cause = cause


class RayActorError(RayError):
    pass


class ActorUnavailableError(RayActorError):
    """It may be there again."""


class TaskCancelledError(RayError):
    pass


class StandIn:
    """What softpnet uses of Ray; `__path__` makes it a package to import from."""

    __path__ = ()
    exceptions = SimpleNamespace(
        RayError=RayError,
        RayTaskError=RayTaskError,
        RayActorError=RayActorError,
        ActorUnavailableError=ActorUnavailableError,
        TaskCancelledError=TaskCancelledError,
    )
    cloudpickle = SimpleNamespace(register_pickle_by_value=lambda module: None)
    util = SimpleNamespace(get_node_ip_address=lambda: "192.0.2.7")

    def __init__(self, cores=2, refuses=None):
        self.list = [
            {"NodeID": f"n{at}", "Alive": True, "Resources": {"CPU": 1.0} if at < cores else {}} for at in range(2)
        ]
        self.refuses, self.given, self.chosen, self.cancelled = refuses, [], [], []
        self.pool = ThreadPoolExecutor(4)
        self.here = threading.local()

    def init(self, address, **more):
        self.given.append(address)
        if self.refuses is not None:
            raise self.refuses

    def nodes(self):
        return self.list

    def get_runtime_context(self):
        return SimpleNamespace(get_node_id=lambda: "n0")

    def remote(self, **options):
        return lambda what: Actor(what) if isinstance(what, type) else Task(self, what)

    def wait(self, references, num_returns, timeout):
        done = wait_for_all(references, timeout).done
        return [each for each in references if each in done], []

    def get(self, reference):
        return reference.result()

    def cancel(self, reference):
        if not reference.done():
            self.cancelled.append(reference)
            reference.set_exception(TaskCancelledError("cancelled"))


class Task:
    def __init__(self, ray, function):
        self.ray, self.function = ray, function

    def options(self, **chosen):
        self.ray.chosen.append(chosen)
        return self

    def remote(self, *given):
        return self.ray.pool.submit(self.function, *given)


class Actor:
    def __init__(self, kind):
        self.made = kind()

    def options(self, **chosen):
        return self

    def remote(self):
        return self

    def __getattr__(self, name):
        def call(*given):
            future = Future()
            future.set_result(getattr(self.made, name)(*given))
            return future

        return SimpleNamespace(remote=call)
