"""What is started in a jail, with the standard library alone: a program by itself, or a program and its tests.

    harness   reads the tests, runs them, and ends with 0 only where it has come to their last line
    worker    a fork made before the tests are read: runs the program, and answers calls of its names

Between them go lines of JSON, of which plain data are made anew; whatever else a program returns stays in the worker,
and a name for it goes across. So no line of the program runs where tests are judged: it knows neither the tests nor
what they expect, and can end, redefine or pretend nothing but its own answers. What this proves is said in `Sandbox`.
"""

from __future__ import annotations

import builtins
import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing takes as long to import as all else here
    from collections.abc import Callable
    from typing import Any

PROGRAM, TESTS = 3, 4  # descriptors
LINE = 1 << 24  # bytes of one message
PLAIN = (bool, float, str, type(None))
ENDS = (StopIteration, StopAsyncIteration)


def text_of(descriptor: int) -> str:
    with open(descriptor, encoding="utf-8", errors="surrogatepass") as file:
        return file.read()


def write(descriptor: int, what: dict[str, Any]) -> None:
    message = memoryview(json.dumps(what).encode() + b"\n")
    while message:
        message = message[os.write(descriptor, message) :]


def begin(name: str) -> dict[str, Any]:
    """The namespace of a program that begins, as an interpreter would make it."""
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
    asked, answered = os.pipe(), os.pipe()
    worker = os.fork()
    if not worker:
        os.close(TESTS)
        os.close(asked[1])
        os.close(answered[0])
        Worker(asked[0], answered[1]).work(text_of(PROGRAM))
    os.close(asked[0])
    os.close(answered[1])
    os.close(PROGRAM)
    far, tests = Far(worker, asked[1], answered[0]), ""
    try:
        far.hear()  # the program has come to its end
        space = Space(far)
        if entry:
            space[entry] = far.ask({"name": entry})
        tests = text_of(TESTS)
        exec(compile(tests, "tests", "exec"), space)
    except BaseException as error:  # SystemExit too: only the last line is a success
        tell(error, tests)
        sys.stdout.flush()
        os._exit(1)
    sys.stdout.flush()
    os._exit(0)


def tell(error: BaseException, tests: str) -> None:
    """One line to our errors: which line of the tests, and what went wrong."""
    line, trace = 0, error.__traceback__
    while trace:
        if trace.tb_frame.f_code.co_filename == "tests":
            line = trace.tb_lineno
        trace = trace.tb_next
    if line:
        sys.stderr.write(f"tests, line {line}: {tests.splitlines()[line - 1].strip()[:500]}\n")
    try:
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    except Exception:
        said = type(error).__name__
    sys.stderr.write(said[:2000].replace("\n", " ") + "\n")
    sys.stderr.flush()


class Space(dict):  # type: ignore[type-arg]
    """Globals of the tests: what they define, modules of the standard library, builtins, and names of the program."""

    def __init__(self, far: Far) -> None:
        super().__init__(__name__="tests")
        self.far = far

    def __missing__(self, name: str) -> Any:
        if hasattr(builtins, name):
            raise KeyError(name)
        if name in sys.stdlib_module_names:
            self[name] = __import__(name)
            return self[name]
        return self.far.ask({"name": name})


class Far:
    """The worker, as the harness sees it."""

    def __init__(self, worker: int, asked: int, answered: int) -> None:
        self.worker, self.asked, self.answered = worker, asked, os.fdopen(answered, "rb")

    def ask(self, what: dict[str, Any]) -> Any:
        try:
            write(self.asked, what)
        except BrokenPipeError:
            return self.hear()  # why it has ended
        return self.hear()

    def hear(self) -> Any:
        """The answer, or the exception that it was."""
        line = self.answered.readline(LINE)
        if not line.endswith(b"\n"):
            if len(line) == LINE:
                raise RuntimeError("the program's answer has more than 16 MiB")
            how = os.waitstatus_to_exitcode(os.waitpid(self.worker, 0)[1])
            if how < 0:
                os.kill(os.getpid(), -how)
            raise RuntimeError(f"the program ended (exit {how}) before its tests did")
        said = json.loads(line)
        if "raised" in said:
            kinds, message = said["raised"]
            for kind in map(str, kinds):
                found = getattr(builtins, kind, None)
                if isinstance(found, type) and issubclass(found, ENDS):
                    break  # it would end an iteration of the tests early, and what is left would not be tested
                if isinstance(found, type) and issubclass(found, Exception):
                    raise found(str(message))
            raise RuntimeError(f"{kinds[0]}: {message}")
        return decoded(said["value"], lambda number: Thing(self, number))


class Thing:
    """What stays in the worker: a function, a class, or an object of the program's own. Equal to itself alone."""

    __slots__ = ("_far", "_number")

    def __init__(self, far: Far, number: int) -> None:
        object.__setattr__(self, "_far", far)
        object.__setattr__(self, "_number", number)

    def __call__(self, *given: Any, **named: Any) -> Any:
        sent = {"given": encoded(given, number_of), "named": encoded(named, number_of)}
        return self._far.ask({"call": self._number, **sent})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in ("__name__", "__doc__"):
            raise AttributeError(name)
        return self._far.ask({"of": self._number, "attribute": name})

    def __setattr__(self, name: str, value: Any) -> None:
        self._far.ask({"of": self._number, "attribute": name, "value": encoded(value, number_of)})

    def __eq__(self, other: object) -> bool:
        return type(other) is Thing and bool(other._number == self._number)

    def __hash__(self) -> int:
        return hash(self._number)


def number_of(value: Any) -> int:
    if type(value) is Thing:
        return int(value._number)
    raise TypeError(f"the tests hand over a {type(value).__name__}, and only plain data go across")


class Worker:
    def __init__(self, asked: int, answered: int) -> None:
        self.asked, self.answered = asked, answered
        self.things: list[Any] = []

    def work(self, text: str) -> None:
        try:
            space = begin("program")
            exec(compile(text, "program.py", "exec"), space)
        except BaseException as error:
            self.answer({"raised": raised(error)})
            os._exit(1)
        self.answer({"value": None})
        with open(self.asked, "rb") as lines:
            for line in lines:
                try:
                    self.answer({"value": encoded(self.done(json.loads(line), space), self.kept)})
                except BaseException as error:
                    self.answer({"raised": raised(error)})
        os._exit(0)

    def answer(self, what: dict[str, Any]) -> None:
        sys.stdout.flush()
        try:
            write(self.answered, what)
        except BrokenPipeError:
            os._exit(1)  # the tests have ended

    def done(self, asked: dict[str, Any], space: dict[str, Any]) -> Any:
        if "name" in asked:
            if asked["name"] not in space:
                raise NameError(f"name {asked['name']!r} is not defined by the program")
            return space[asked["name"]]
        known = self.things.__getitem__
        if "call" in asked:
            return known(asked["call"])(*decoded(asked["given"], known), **decoded(asked["named"], known))
        if "value" in asked:
            return setattr(known(asked["of"]), asked["attribute"], decoded(asked["value"], known))
        return getattr(known(asked["of"]), asked["attribute"])

    def kept(self, value: Any) -> int:
        for number, thing in enumerate(self.things):
            if thing is value:
                return number
        self.things.append(value)
        return len(self.things) - 1


def raised(error: BaseException) -> tuple[list[str], str]:
    try:
        message = str(error)[:1000]
    except BaseException:
        message = ""
    return [kind.__name__ for kind in type(error).__mro__], message


def encoded(value: Any, thing: Callable[[Any], int]) -> Any:
    """JSON that says which plain data it was; `thing` numbers whatever else it is."""
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, int):
        return int(value) if -(2**63) < value < 2**63 else {"int": hex(value)}
    if isinstance(value, list):
        return [encoded(one, thing) for one in value]
    for kind in (tuple, set, frozenset):
        if isinstance(value, kind):
            return {kind.__name__: [encoded(one, thing) for one in value]}
    if isinstance(value, dict):
        return {"dict": [[encoded(key, thing), encoded(one, thing)] for key, one in value.items()]}
    if isinstance(value, (bytes, bytearray)):
        return {type(value).__name__: value.hex()}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, range):
        return {"range": [value.start, value.stop, value.step]}
    if isinstance(
        value, (type(iter([])), type(iter(())), map, filter, zip, reversed, enumerate, type(_ for _ in range(0)))
    ):
        return {"iterator": [encoded(one, thing) for one in value]}
    return {"thing": thing(value)}


MADE: dict[str, Callable[[Any], Any]] = {
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "dict": dict,
    "iterator": iter,
}
READ: dict[str, Callable[[Any], Any]] = {
    "int": lambda said: int(said, 16),
    "bytes": bytes.fromhex,
    "bytearray": bytearray.fromhex,
}
READ |= {"complex": lambda said: complex(*said), "range": lambda said: range(*said)}


def decoded(said: Any, thing: Callable[[int], Any]) -> Any:
    """Plain data of exactly the kinds that Python has: what is compared with them is compared by Python's own rules."""
    if isinstance(said, list):
        return [decoded(one, thing) for one in said]
    if not isinstance(said, dict):
        return said
    ((kind, content),) = said.items()
    if kind == "thing":
        return thing(content)
    if kind in READ:
        return READ[kind](content)
    return MADE[kind](decoded(one, thing) for one in content)


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run()
    else:
        check(sys.argv[2] if sys.argv[2:] else None)
