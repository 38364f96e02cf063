"""Run programs one after another: make a jail, watch it, kill all its processes, and report the result.

Each line of the input is a job, and each line of the output a result, both JSON. If the parent process ends, all ends.
The jail is confined before the program's interpreter starts. If confinement fails, the program is not run.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import sys
import time
from typing import Any

from . import bubblewrap, identity, landlock, seccomp, watch
from .calls import PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_SET_PDEATHSIG, prctl

SETUP = 20.0  # seconds to make a jail on a busy machine
FIRST, BETWEEN = 0.04, 0.03  # seconds before the resources are first counted, and between counts
PIECE = 1 << 16
GIVEN, TESTS = 3, 4  # descriptors of the program's text and of the tests' text
SEALS = 1 | 2 | 4 | 8  # no more seals, no shrinking, growing or writing
OVERHEAD = {"bubblewrap": 2}  # processes of the jail itself
ENTRIES = 4096  # files and directories of a scratch directory
EXHAUSTED = {  # the uncaught exceptions that limits cause
    "MemoryError": "memory",
    "BlockingIOError: [Errno 11]": "processes",
    "RuntimeError: can't start new thread": "processes",
    "OSError: [Errno 27]": "disk",
    "OSError: [Errno 28]": "disk",
}


class Failure(Exception):
    """The jail could not be made."""


def main() -> None:
    signal.signal(signal.SIGTERM, stop)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    for line in sys.stdin:
        print(json.dumps(result(json.loads(line))), flush=True)


def result(job: dict[str, Any]) -> dict[str, Any]:
    """The result of a job, which always removes its processes and files."""
    scratch = f"{job['home']}/run-{os.getpid()}"
    os.mkdir(scratch, 0o700)
    try:
        outcome = keep(job, scratch)
    except (Failure, OSError) as error:
        outcome = {"setup": f"{error}"}
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the input ends then, too
        clean = watch.sweep()
        watch.remove(scratch)
        os.closerange(3, identity.FILES)
        signal.signal(signal.SIGTERM, stop)
    return outcome if clean else {"setup": "a program could not be killed. End the processes that this user still runs"}


def stop(*_: object) -> None:
    sys.exit(1)


def keep(job: dict[str, Any], scratch: str) -> dict[str, Any]:
    user = identity.stranger()
    if user is not None:
        os.chown(scratch, user, user)
    texts = [sealed(job["stdin"]), sealed(job["program"]), sealed(job["tests"] or "")]
    out, err, setup = (os.pipe() for _ in range(3))
    child = os.fork()
    if not child:
        try:
            confine(job, scratch, user, [texts[0], out[1], err[1], *texts[1:]])
        except BaseException as error:  # the child must not continue after any error
            os.write(setup[1], f"{type(error).__name__}: {error}".encode()[:4000])
        finally:
            os._exit(1)
    for descriptor in (*texts, out[1], err[1], setup[1]):
        os.close(descriptor)
    ready, _, _ = select.select([setup[0]], [], [], SETUP)
    problem = os.read(setup[0], PIECE).decode(errors="replace") if ready else f"not ready after {SETUP:g} s"
    if problem:
        raise Failure(problem)
    return watched(job, scratch, user, child, (out[0], err[0]))


def sealed(text: str) -> int:
    """A descriptor of a text that no process can change."""
    descriptor = os.memfd_create("text", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(text.encode(errors="surrogatepass"))
    os.lseek(descriptor, 0, os.SEEK_SET)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALS)
    return descriptor


def confine(job: dict[str, Any], scratch: str, user: int | None, texts: list[int]) -> None:
    """Become the program. `texts` are its descriptors 0 to 4; all others close when it starts."""
    means, limits, read, devices = job["means"], job["limits"], job["read"], job["devices"]
    os.setsid()
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    others = watch.tasks(os.getuid()) if user is None else 0
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    identity.become(user)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of users resets it
    os.chdir(scratch)
    for number, descriptor in enumerate([fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 64) for one in texts]):
        os.dup2(descriptor, number)
    command = [job["python"], "-sSPB", "-Xutf8", "-c", job["inside"], "run" if job["tests"] is None else "check"]
    if job["entry"]:
        command.append(job["entry"])
    environment = {"HOME": scratch, "TMPDIR": scratch, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    environment |= {"PYTHONHASHSEED": "0"} | ({"LD_LIBRARY_PATH": job["library"]} if job["library"] else {})
    machine = seccomp.machine() if means != "none" else None
    identity.bound(limits, others)
    if means == "bubblewrap":
        environment |= {"HOME": bubblewrap.SCRATCH, "TMPDIR": bubblewrap.SCRATCH}
        rules = None
        if machine:
            rules = os.memfd_create("rules", 0)
            os.write(rules, seccomp.program(machine))
            os.lseek(rules, 0, os.SEEK_SET)
        command = bubblewrap.arguments(job["bwrap"], read, devices, limits["disk"], rules) + command
    else:
        if means == "landlock":
            landlock.restrict(job["abi"], read, devices, [scratch])
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        if machine:
            seccomp.restrict(machine, os.getpid() if job["abi"] < 6 else None)
    os.execve(command[0], command, environment)


def watched(job: dict[str, Any], scratch: str, user: int | None, child: int, pipes: tuple[int, int]) -> dict[str, Any]:
    """Wait until the program ends or exceeds a limit, end all processes of the jail, and return the result."""
    limits, begun = job["limits"], time.monotonic()
    output: dict[int, bytearray] = {pipe: bytearray() for pipe in pipes}
    ended = os.pidfd_open(child)
    poll = select.poll()
    for descriptor in (*pipes, ended):
        poll.register(descriptor, select.POLLIN)
    poll.register(1, 0)  # an error there: the parent process has ended
    reason, count = None, begun + FIRST
    while reason is None:
        now = time.monotonic()
        wait = max(min(begun + limits["wall"], count) - now, 0)
        events = dict(poll.poll(wait * 1000))
        for pipe in pipes:
            if pipe in events and not read(pipe, output, limits["output"]):
                poll.unregister(pipe)
        if 1 in events:
            sys.exit(1)
        if ended in events:
            break
        now = time.monotonic()
        if sum(map(len, output.values())) > limits["output"]:
            reason = "output"
        elif now >= begun + limits["wall"]:
            reason = "timeout"
        elif now >= count:
            reason, count = exceeded(job, scratch, user), now + BETWEEN
    seconds = time.monotonic() - begun
    status, cpu = None, 0.0
    if reason is None:
        _, status, used = os.wait4(child, 0)
        cpu = used.ru_utime + used.ru_stime
    watch.sweep()
    for pipe in pipes:  # no process writes there any more
        while len(output[pipe]) <= limits["output"] and select.select([pipe], [], [], 0)[0]:
            if not read(pipe, output, limits["output"]):
                break
    if reason is None and sum(map(len, output.values())) > limits["output"]:
        reason = "output"
    out, err = (bytes(output[pipe][: limits["output"]]).decode(errors="replace") for pipe in pipes)
    outcome = {"stdout": out, "stderr": err, "seconds": seconds, "exit": None, "signal": None, "outcome": reason}
    if status is not None:
        code = os.waitstatus_to_exitcode(status)
        if job["means"] == "bubblewrap" and 128 < code < 128 + signal.NSIG:
            code = 128 - code  # its exit code for a signal
        outcome["exit" if code >= 0 else "signal"] = abs(code)
        outcome["outcome"] = reason or judged(code, cpu, limits, err)
    return outcome


def read(pipe: int, output: dict[int, bytearray], most: int) -> bool:
    """Append output of a pipe, up to one byte more than the limit; False at its end."""
    piece = os.read(pipe, PIECE)
    output[pipe] += piece[: max(most + 1 - len(output[pipe]), 0)]
    return bool(piece)


def exceeded(job: dict[str, Any], scratch: str, user: int | None) -> str | None:
    """The limit that all processes together exceed, or None."""
    limits, overhead = job["limits"], OVERHEAD.get(job["means"], 0)
    processes = watch.below(os.getpid()).values()
    with identity.seeing_as(user):
        held = watch.held(processes, limits["file"])
        inside = watch.entries(processes, bubblewrap.WRITABLE)
    if len(processes) > limits["processes"] + overhead or held.hidden > overhead:
        return "processes"
    if sum(process.memory for process in processes) + held.buffers > limits["memory"]:
        return "memory"
    occupied, entries = watch.occupied(scratch)  # empty with bubblewrap, which has directories in memory
    if job["means"] != "bubblewrap":
        occupied += held.unnamed
    return "disk" if occupied > limits["disk"] or entries + inside > ENTRIES else None


def judged(code: int, cpu: float, limits: dict[str, Any], err: str) -> str:
    """The outcome of a program that ended by itself, from its exit code and the last line of stderr."""
    if code == -signal.SIGXCPU or (code == -signal.SIGKILL and cpu >= limits["cpu"]):
        return "timeout"
    if code == -signal.SIGXFSZ:
        return "disk"
    if code < 0:
        return "killed"
    if code == 0:
        return "passed"
    last = err.rstrip().rpartition("\n")[2]
    return next((outcome for begin, outcome in EXHAUSTED.items() if last.startswith(begin)), "failed")
