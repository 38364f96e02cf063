"""A program and its tests: what passes has been tested, whatever the program does."""

from __future__ import annotations

import pytest

from unmask.sandbox import Limits

LIMITS = Limits(wall=30, cpu=20)
SHORT = Limits(wall=0.8)
TESTS = "def check(f):\n    assert f(2) == 31337\n    assert f(3) == 27182818284590452353\ncheck(candidate)"
RIGHT = "def candidate(x): return 31337 if x == 2 else 27182818284590452353"
# What is sought is longer than an address: five digits of one were found in a `repr` once in a hundred runs.
SEEK = """
import gc, os, sys
def seek():
    found = [repr(o)[:100000] for o in gc.get_objects() if isinstance(o, (str, bytes, list, dict))]
    frame = sys._getframe()
    while frame:
        found += [repr(frame.f_globals), repr(frame.f_locals)]
        frame = frame.f_back
    found += [repr(dict(os.environ)), repr(sys.orig_argv)]
    for n in range(64):
        try:
            os.lseek(n, 0, 0)
            found.append(repr(os.read(n, 1 << 16)))
        except OSError: pass
    for p in (os.getpid(), os.getppid(), 'self'):
        for name in ('mem', 'fd', 'environ', 'cmdline', 'maps'):
            try: found.append(repr(open(f'/proc/{p}/{name}', 'rb').read(1 << 20)))
            except OSError: pass
    for place, _, files in os.walk('.'):
        for name in files:
            try: found.append(open(place + '/' + name).read())
            except OSError: pass
    return any('2718281828' '4590452353' in text for text in found)
def candidate(x):
    return 31337 if x == 2 else 27182818284590452350 + 3 * seek()
"""
CHEATS = {
    "exit at once": "import os\nos._exit(0)",
    "exit": "import sys\nsys.exit(0)",
    "exit when called": "import os\ndef candidate(x): os._exit(0)",
    "sys.exit when called": "import sys\ndef candidate(x): sys.exit(0)",
    "quit when called": "def candidate(x): quit()",
    "exit when it ends": "import atexit, os\natexit.register(os._exit, 0)\ndef candidate(x): return 1",
    "SystemExit of its own": "class SystemExit(Exception): pass\ndef candidate(x): raise SystemExit(0)",
    "an exception that is none": "class K(KeyboardInterrupt): pass\ndef candidate(x): raise K()",
    "equal to everything": "class E:\n    def __eq__(self, o): return True\n    def __ne__(self, o): return False\n"
    "def candidate(x): return E()",
    "a number that is equal to everything": "class E(int):\n    def __eq__(self, o): return True\n"
    "    __hash__ = int.__hash__\ndef candidate(x): return E(1)",
    "a text that is equal to everything": "class E(str):\n    def __eq__(self, o): return True\n"
    "    __hash__ = str.__hash__\ndef candidate(x): return E('x')",
    "patched builtins": "import builtins\nbuiltins.AssertionError = builtins.exec = builtins.compile = "
    "lambda *a, **k: None\ndef candidate(x): return 1",
    "a patched interpreter": "import sys\nsys.excepthook = lambda *a: None\nsys.settrace(lambda *a: None)\n"
    "sys.modules['json'] = sys.modules['os'] = None\ndef candidate(x): return 1",
    "a harness of its own": "def check(f): pass\ndef candidate(x): return 1",
    "a module of its own": "open('random.py', 'w').write('')\nimport os\nos.makedirs('json')\n"
    "def candidate(x): return 1",
    "answers without questions": "import os\nfor n in range(3, 32):\n    for _ in range(9):\n        try:\n"
    "            os.write(n, b'{\"value\": null}\\n')\n        except OSError: break\ndef candidate(x): return 1",
    "no JSON": "import os\nfor n in range(3, 32):\n    try: os.write(n, b'\\xff[[[\\n')\n    except OSError: pass",
    "JSON without end": "import os\nfor n in range(3, 32):\n    try: os.write(n, b'[' * 60000 + b'\\n')\n"
    "    except OSError: pass",
    "the kind that breaks": 'import os\nfor n in range(3, 32):\n    try: os.write(n, b\'{"value": {"exec": []}}\\n\')\n'
    "    except OSError: pass",
    "the harness killed": "import os\nos.kill(os.getppid(), 9)",
    "the harness interrupted": "import os, time\nfor s in (2, 15, 1, 3, 6, 10, 12):\n    os.kill(os.getppid(), s)\n"
    "time.sleep(1)",
    "what is expected, sought": SEEK,
    "a fork that answers too": "import os\nos.fork()\ndef candidate(x): return 1",
    "nothing defined": "",
    "no program": "def candidate(x) return 31337",
    "wrong": "def candidate(x): return 31337",
}


@pytest.mark.rotates(4)
@pytest.mark.parametrize("kind", ["bubblewrap", "landlock"])
@pytest.mark.parametrize("name", CHEATS)
def test_who_cheats_fails(name, kind, box):
    ran = box(kind).check(CHEATS[name], TESTS, "candidate", LIMITS)
    assert ran.outcome in ("failed", "killed", "memory"), ran


def test_what_is_right_passes(strongest):
    assert strongest.check(RIGHT, TESTS, "candidate", LIMITS).passed
    assert strongest.check(RIGHT, TESTS).passed  # a free name of the tests is the program's


@pytest.mark.parametrize(
    "tests",
    [
        "assert all(map(candidate, [1, 2]))",
        "for one, other in zip(map(candidate, [1, 2]), [1, 2]): assert one == other",
        "assert [candidate(x) for x in iter(lambda: candidate(1), 2)] == []",
        "list(map(candidate, [1, 2]))",
    ],
)
@pytest.mark.parametrize("kind", ["StopIteration", "StopAsyncIteration", "End"])
def test_an_exception_of_the_program_ends_no_iteration_of_the_tests(kind, tests, strongest):
    program = f"class End(StopIteration): pass\ndef candidate(x): raise {kind}('now')"
    ran = strongest.check(program, tests, "candidate", LIMITS)
    assert ran.why == f"failed: RuntimeError: {kind}: now"


def test_a_search_would_find_what_is_there(strongest):
    """The search of the cheat itself: in a process that knows the answer, it finds it."""
    assert "True" in strongest.run(f"secret = 'x 27182818284590452353 x'\n{SEEK}\nprint(seek())", LIMITS).stdout


@pytest.mark.parametrize(
    ("program", "tests"),
    [
        ("def f(x): return x", f"for x in {value}:\n    assert f(x) == x and type(f(x)) is type(x), x")
        for value in (
            "(0, -1, 2**63, -2**64, 10**5000, True, False, None, 1.5, -0.0, 1e308, float('inf'), 1+2j)",
            "('', 'a\\n', '\\0', chr(0xd800), '\\U0001f600', b'', b'\\xff', bytearray(b'x'))",
            "([], [[1], (2,)], (), (1, [2, (3,)]), set(), {1, (2, 3)}, frozenset({1}), {}, {(1, 2): {'a': [None]}})",
            "(range(0), range(3, 9, 2), [float('-inf'), 'x'], {'thing': 1, 'tuple': [1]}, [{'value': 1}])",
        )
    ]
    + [
        ("def f(): return float('nan'), -0.0", "import math\na, b = f()\nassert a != a and math.copysign(1, b) == -1"),
        ("def f(n):\n    yield from range(n)", "assert list(f(3)) == [0, 1, 2] and next(f(1)) == 0"),
        ("def f(*a, k=1, **o): return a, k, o", "assert f(1, [2], k=3, z='q') == ((1, [2]), 3, {'z': 'q'})"),
        ("def f(): raise ValueError('no')", "try: f()\nexcept ValueError as e: assert str(e) == 'no'\nelse: assert 0"),
        ("class E(KeyError): pass\ndef f(): raise E(1)", "try: f()\nexcept KeyError: pass\nelse: assert 0"),
        ("class N:\n    def __init__(s, v): s.v, s.n = v, None\ndef total(n): return n.v + total(n.n) if n else 0",
         "a, b = N(1), N(2)\na.n = b\nassert total(a) == 3 and a.v == 1 and a.n == b and a != b and a.n.n is None"),
        ("def sum(a, b): return a * b", "assert sum(2, 5) == 10"),  # the entry point hides a builtin
        ("def f(x): return abs(x)", "assert math.isclose(f(-2.0), 2) and abs(-1) == 1"),
        ("def f(): print('said')\nf()", "f()"),
        ("x = [1]\ndef f(): return x", "f().append(2)\nassert f() == [1] == x"),
    ],
)  # fmt: skip
def test_data_go_across_as_they_are(program, tests, strongest):
    ran = strongest.check(program, tests, "sum" if "sum(2, 5)" in tests else None, LIMITS)
    assert ran.passed, ran


@pytest.mark.rotates(4)
@pytest.mark.parametrize(
    ("program", "tests", "outcome", "says"),
    [
        (RIGHT, "assert candidate(2) == 1", "failed", "AssertionError"),
        (RIGHT, "\n\nassert candidate(2) == 1", "failed", "AssertionError"),
        (RIGHT, "assert other(2) == 1", "failed", "NameError: name 'other' is not defined by the program"),
        (RIGHT, "import sys\nsys.exit(0)", "failed", "SystemExit"),
        (RIGHT, "candidate(lambda: 1)", "failed", "expected plain data"),
        (RIGHT, "assert (", "failed", "SyntaxError"),
        ("def f(): return 1 / 0", "f()", "failed", "ZeroDivisionError"),
        ("def f(): return f()", "f()", "failed", "RecursionError"),
        ("import os\nos._exit(0)", "1", "failed", "the program ended (exit 0) before its tests did"),
        ("import os\nos.abort()", "1", "killed", "SIGABRT"),
        ("def f(): return bytearray(10**9)", "f()", "memory", "MemoryError"),
        ("def f(): return 'x' * 2**25", "f()", "failed", "16 MiB"),
        ("def abs(x): return 0", "assert abs(-1) == 0", "failed", "AssertionError"),  # a builtin is nobody else's
        ("class math:\n    isclose = all", "assert math.isclose(1, 2)", "failed", "AssertionError"),
    ],
)
def test_what_fails_says_why(program, tests, outcome, says, strongest):
    ran = strongest.check(program, tests, limits=LIMITS)
    assert ran.outcome == outcome, ran
    assert says in ran.why


@pytest.mark.rotates(3)
def test_time_and_processes_are_told(strongest):
    assert strongest.check("def f():\n    while True: pass", "f()", limits=SHORT).why.startswith("timeout")
    assert strongest.check("while True: pass", "1", limits=SHORT).outcome == "timeout"
    assert strongest.check("def f():\n    while True: yield 1", "f()", limits=SHORT).outcome in ("timeout", "memory")
    assert strongest.check("import os\nwhile True: os.fork()", "1", limits=LIMITS).outcome == "processes"
