"""The main program of a jail, which runs a program alone or with tests. It uses only the standard library.

    harness   reads and runs the tests, and exits with 0 only after their last line
    worker    forked before the tests are read: runs the program, and answers calls of its functions

They exchange lines of JSON with plain data; other objects stay in the worker and are referred to by numbers. So no code
of the program runs in the harness. The program knows neither the tests nor the expected results, and it controls only
its own answers. `Sandbox.check` describes the guarantees.
"""

from __future__ import annotations

import builtins
import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # the import of typing takes as long as all others together
    from collections.abc import Callable
    from typing import Any

PROGRAM, TESTS = 3, 4  # descriptors
LINE = 1 << 24  # bytes of one message
PLAIN = (bool, float, str, type(None))
ENDS = (StopIteration, StopAsyncIteration)


def text_of(descriptor: int) -> str:
    with open(descriptor, encoding="utf-8", errors="surrogatepass") as file:
        return file.read()


def write(descriptor: int, content: dict[str, Any]) -> None:
    message = memoryview(json.dumps(content).encode() + b"\n")
    while message:
        message = message[os.write(descriptor, message) :]


def begin(name: str) -> dict[str, Any]:
    """The initial namespace of a program, as in an interpreter."""
    from _sitebuiltins import Quitter

    builtins.exit, builtins.quit = Quitter("exit", "Ctrl-D"), Quitter("quit", "Ctrl-D")
    module = type(sys)(name)
    sys.modules[name], sys.argv = module, ["program.py"]
    return module.__dict__


def run() -> None:
    text = text_of(PROGRAM)
    with open("program.py", "w", encoding="utf-8", errors="surrogatepass") as file:
        file.write(text)
    os.close(TESTS)
    space = begin("__main__")
    space["__file__"] = "program.py"
    exec(compile(text, "program.py", "exec"), space)


def check(entry: str | None) -> None:
    requests, replies = os.pipe(), os.pipe()
    process = os.fork()
    if not process:
        os.close(TESTS)
        os.close(requests[1])
        os.close(replies[0])
        Worker(requests[0], replies[1]).work(text_of(PROGRAM))
    os.close(requests[0])
    os.close(replies[1])
    os.close(PROGRAM)
    remote, tests = Remote(process, requests[1], replies[0]), ""
    try:
        remote.receive()  # the end of the program
        space = Space(remote)
        if entry:
            space[entry] = remote.call({"name": entry})
        tests = text_of(TESTS)
        exec(compile(tests, "tests", "exec"), space)
    except BaseException as error:  # also SystemExit: only the last line is a success
        report(error, tests)
        sys.stdout.flush()
        os._exit(1)
    sys.stdout.flush()
    os._exit(0)


def report(error: BaseException, tests: str) -> None:
    """Write the failed line of the tests and its error to stderr."""
    line, trace = 0, error.__traceback__
    while trace:
        if trace.tb_frame.f_code.co_filename == "tests":
            line = trace.tb_lineno
        trace = trace.tb_next
    if line:
        sys.stderr.write(f"tests, line {line}: {tests.splitlines()[line - 1].strip()[:500]}\n")
    try:
        message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    except Exception:
        message = type(error).__name__
    sys.stderr.write(message[:2000].replace("\n", " ") + "\n")
    sys.stderr.flush()


class Space(dict):  # type: ignore[type-arg]
    """Globals of the tests: their own names, modules of the standard library, builtins, and names of the program."""

    def __init__(self, remote: Remote) -> None:
        super().__init__(__name__="tests")
        self.remote = remote

    def __missing__(self, name: str) -> Any:
        if hasattr(builtins, name):
            raise KeyError(name)
        if name in sys.stdlib_module_names:
            self[name] = __import__(name)
            return self[name]
        return self.remote.call({"name": name})


class Remote:
    """The harness's connection to the worker."""

    def __init__(self, process: int, requests: int, replies: int) -> None:
        self.process, self.requests, self.replies = process, requests, os.fdopen(replies, "rb")

    def call(self, request: dict[str, Any]) -> Any:
        try:
            write(self.requests, request)
        except BrokenPipeError:
            return self.receive()  # the reason of its end
        return self.receive()

    def receive(self) -> Any:
        """Return the reply, or raise the exception that it contains."""
        line = self.replies.readline(LINE)
        if not line.endswith(b"\n"):
            if len(line) == LINE:
                raise RuntimeError("the program's answer is larger than 16 MiB")
            code = os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
            if code < 0:
                os.kill(os.getpid(), -code)
            raise RuntimeError(f"the program ended (exit {code}) before its tests did")
        reply = json.loads(line)
        if "raised" in reply:
            kinds, message = reply["raised"]
            for name in map(str, kinds):
                kind = getattr(builtins, name, None)
                if isinstance(kind, type) and issubclass(kind, ENDS):
                    break  # it would end an iteration of the tests early, and skip the rest
                if isinstance(kind, type) and issubclass(kind, Exception):
                    raise kind(str(message))
            raise RuntimeError(f"{kinds[0]}: {message}")
        return decoded(reply["value"], lambda number: Proxy(self, number))


class Proxy:
    """A function, class or object that stays in the worker. It equals only itself."""

    __slots__ = ("_number", "_remote")

    def __init__(self, remote: Remote, number: int) -> None:
        object.__setattr__(self, "_remote", remote)
        object.__setattr__(self, "_number", number)

    def __call__(self, *given: Any, **named: Any) -> Any:
        arguments = {"given": encoded(given, number_of), "named": encoded(named, number_of)}
        return self._remote.call({"call": self._number, **arguments})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in ("__name__", "__doc__"):
            raise AttributeError(name)
        return self._remote.call({"of": self._number, "attribute": name})

    def __setattr__(self, name: str, value: Any) -> None:
        self._remote.call({"of": self._number, "attribute": name, "value": encoded(value, number_of)})

    def __eq__(self, other: object) -> bool:
        return type(other) is Proxy and bool(other._number == self._number)

    def __hash__(self) -> int:
        return hash(self._number)


def number_of(value: Any) -> int:
    if type(value) is Proxy:
        return int(value._number)
    raise TypeError(f"the tests pass a {type(value).__name__}; expected plain data")


class Worker:
    def __init__(self, requests: int, replies: int) -> None:
        self.requests, self.replies = requests, replies
        self.objects: list[Any] = []

    def work(self, text: str) -> None:
        try:
            space = begin("program")
            exec(compile(text, "program.py", "exec"), space)
        except BaseException as error:
            self.reply({"raised": raised(error)})
            os._exit(1)
        self.reply({"value": None})
        with open(self.requests, "rb") as lines:
            for line in lines:
                try:
                    self.reply({"value": encoded(self.result(json.loads(line), space), self.number)})
                except BaseException as error:
                    self.reply({"raised": raised(error)})
        os._exit(0)

    def reply(self, content: dict[str, Any]) -> None:
        sys.stdout.flush()
        try:
            write(self.replies, content)
        except BrokenPipeError:
            os._exit(1)  # the tests have ended

    def result(self, request: dict[str, Any], space: dict[str, Any]) -> Any:
        if "name" in request:
            if request["name"] not in space:
                raise NameError(f"name {request['name']!r} is not defined by the program")
            return space[request["name"]]
        known = self.objects.__getitem__
        if "call" in request:
            return known(request["call"])(*decoded(request["given"], known), **decoded(request["named"], known))
        if "value" in request:
            return setattr(known(request["of"]), request["attribute"], decoded(request["value"], known))
        return getattr(known(request["of"]), request["attribute"])

    def number(self, value: Any) -> int:
        for number, known in enumerate(self.objects):
            if known is value:
                return number
        self.objects.append(value)
        return len(self.objects) - 1


def raised(error: BaseException) -> tuple[list[str], str]:
    try:
        message = str(error)[:1000]
    except BaseException:
        message = ""
    return [kind.__name__ for kind in type(error).__mro__], message


def encoded(value: Any, number: Callable[[Any], int]) -> Any:
    """JSON for plain data, with their types; `number` returns the number of any other object."""
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, int):
        return int(value) if -(2**63) < value < 2**63 else {"int": hex(value)}
    if isinstance(value, list):
        return [encoded(one, number) for one in value]
    for kind in (tuple, set, frozenset):
        if isinstance(value, kind):
            return {kind.__name__: [encoded(one, number) for one in value]}
    if isinstance(value, dict):
        return {"dict": [[encoded(key, number), encoded(one, number)] for key, one in value.items()]}
    if isinstance(value, (bytes, bytearray)):
        return {type(value).__name__: value.hex()}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, range):
        return {"range": [value.start, value.stop, value.step]}
    if isinstance(
        value, (type(iter([])), type(iter(())), map, filter, zip, reversed, enumerate, type(_ for _ in range(0)))
    ):
        return {"iterator": [encoded(one, number) for one in value]}
    return {"object": number(value)}


COLLECTIONS: dict[str, Callable[[Any], Any]] = {
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "dict": dict,
    "iterator": iter,
}
SCALARS: dict[str, Callable[[Any], Any]] = {
    "int": lambda digits: int(digits, 16),
    "bytes": bytes.fromhex,
    "bytearray": bytearray.fromhex,
    "complex": lambda parts: complex(*parts),
    "range": lambda bounds: range(*bounds),
}


def decoded(value: Any, thing: Callable[[int], Any]) -> Any:
    """Plain data of exactly Python's own types, so that comparisons follow Python's own rules."""
    if isinstance(value, list):
        return [decoded(one, thing) for one in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "object":
        return thing(content)
    if kind in SCALARS:
        return SCALARS[kind](content)
    return COLLECTIONS[kind](decoded(one, thing) for one in content)


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run()
    else:
        check(sys.argv[2] if sys.argv[2:] else None)
