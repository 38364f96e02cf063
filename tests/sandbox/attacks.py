"""Hostile programs. Each prints ESCAPED where it has succeeded; `outcome` is as what it is to be reported.

TARGET, PORT, PATH, VICTIM and PARENT are a file, a TCP port, a unix socket and two processes of ours, outside; LEFT is
a name for what is to be left there.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from unmask.sandbox import Limits
from unmask.sandbox.limits import MiB

LIMITS = Limits(wall=30, cpu=20, memory=192 * MiB, processes=16, file=2 * MiB, disk=6 * MiB, output=MiB)
SHORT = Limits(wall=0.6, cpu=6, memory=192 * MiB, processes=16, file=2 * MiB, disk=6 * MiB, output=MiB)
BRIEF = Limits(wall=2, cpu=6, memory=192 * MiB, processes=16, file=2 * MiB, disk=6 * MiB, output=MiB)
HURRIED = Limits(wall=60, cpu=1, memory=192 * MiB, processes=16, file=2 * MiB, disk=6 * MiB, output=MiB)

FULL = Limits(wall=3, cpu=6, memory=160 * MiB, processes=16, file=16 * MiB, disk=6 * MiB, output=MiB)
MANY = Limits(wall=30, cpu=20, memory=160 * MiB, processes=40, file=16 * MiB, disk=6 * MiB, output=MiB)
WIDE = Limits(wall=30, cpu=20, memory=512 * MiB, processes=40, file=32 * MiB, disk=64 * MiB, output=MiB)
THREAD_EXIT = {"x86_64": 60, "aarch64": 93}[os.uname().machine]
MAPS = """
import ctypes
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_uint64
libc.mmap.argtypes = [ctypes.c_uint64, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_uint64, ctypes.c_size_t]
"""
FILL = """
import os, time
held = []
for _ in range(3): os.fork()  # 8 processes
try:
    while True:
        pair = make()
        held += pair
        for one in pair:
            try:
                os.set_blocking(one, False)
                while os.write(one, bytes(1 << 16)): pass
            except (BlockingIOError, PermissionError): pass
            except OSError as error:
                if error.errno != 9: raise  # the end of a pipe that is read
except OSError: pass
time.sleep(600)
"""
SOCKETS = (
    "import socket\nobjects = []\ndef make():\n    pair = socket.socketpair()\n    objects.extend(pair)\n"
    "    for one in pair:\n        try: one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)\n"
    "        except PermissionError: pass\n"
    "    return [one.fileno() for one in objects[-2:]]\n" + FILL
)
PIPES = (
    "import fcntl, os\ndef make():\n    pair = os.pipe()\n    try: fcntl.fcntl(pair[1], 1031, 1 << 20)\n"
    "    except PermissionError: pass\n    return pair\n" + FILL
)
UNNAMED = """
import os, time
held = []
for _ in range(3): os.fork()
try:
    while True:
        name = str(os.getpid())
        held.append(open(name, 'wb'))
        os.remove(name)
        for _ in range(16): held[-1].write(bytes(1 << 20))
        held[-1].flush()
except OSError: pass
time.sleep(600)
"""


@dataclass(frozen=True)
class Attack:
    name: str
    program: str
    outcome: str  # several, where it depends on the machine which comes first: separated by spaces
    says: str = ""  # in what is said of it
    limits: Limits = LIMITS


ATTACKS = [
    Attack("fork bomb", "import os\nwhile True:\n    os.fork()", "processes"),
    Attack(
        "fork bomb that catches",
        "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass",
        "processes",
    ),
    Attack(
        "fork bomb that flees",  # each process ends as soon as it has a child: nobody is there for long
        "import os\nwhile True:\n    if os.fork():\n        os._exit(0)\n    os.setsid()",
        "passed processes",
    ),
    Attack("memory bomb", "x = bytearray(2**30)\nprint('ESCAPED')", "memory", "MemoryError"),
    Attack(
        "memory bomb of many processes",
        "import os, time\nfor _ in range(3):\n    os.fork()\n"
        "x = bytearray(100 << 20)\nx[::4096] = b'x' * len(x[::4096])\ntime.sleep(60)",
        "memory processes",
    ),
    Attack("endless loop", "while True: pass", "timeout", limits=SHORT),
    Attack("endless loop, by CPU time", "while True: pass", "timeout", "SIGXCPU", HURRIED),
    Attack(
        "endless loop that ignores signals",
        "import signal\nfor s in range(1, 65):\n    try:\n        signal.signal(s, signal.SIG_IGN)\n"
        "    except (OSError, ValueError):\n        pass\nwhile True: pass",
        "timeout",
        limits=SHORT,
    ),
    Attack("endless print", "while True: print('x')", "output"),
    Attack(
        "2 GB of stdout", "import os\nfor _ in range(2048): os.write(1, bytes(1 << 20))\nprint('ESCAPED')", "output"
    ),
    Attack(
        "2 GB of stderr", "import os\nfor _ in range(2048): os.write(2, bytes(1 << 20))\nprint('ESCAPED')", "output"
    ),
    Attack(
        "full disk",
        "for n in range(4000):\n    with open(f'f{n}', 'wb') as f: f.write(bytes(1 << 20))\nprint('ESCAPED')",
        "disk",
    ),
    Attack("large file", "with open('f', 'wb') as f: f.write(bytes(4 << 20))\nprint('ESCAPED')", "disk", "Errno 27"),
    Attack(
        "endless files",
        "n = 0\nwhile True:\n    open(f'f{n}', 'w').close()\n    n += 1",
        "disk",
    ),
    Attack(
        "very deep directories",
        "import os\nfor _ in range(1200):\n    os.mkdir('d', 0o700)\n    os.chdir('d')\nos.mkdir('e', 0)",
        "passed disk",
    ),
    Attack("memory in the buffers of sockets", SOCKETS, "memory", limits=MANY),
    Attack("memory in the buffers of large pipes", PIPES, "timeout", limits=FULL),
    Attack(
        "memory that is shared, and no longer mapped",
        MAPS + "for _ in range(9):\n    place = libc.mmap(0, 100 << 20, 3, 0x21, -1, 0)\n"
        "    assert place != 2**64 - 1, 'refused'\n    ctypes.memset(place, 1, 100 << 20)\n"
        "    libc.munmap(place + 4096, (100 << 20) - 4096)\nprint('ESCAPED')",
        "failed",
        "refused",
    ),
    Attack("memory of /dev/zero", "open('/dev/zero', 'r+b')\nprint('ESCAPED')", "failed", "Error"),
    Attack(
        "memory of pages in pipes",
        "import ctypes, os\ntext = (ctypes.c_char * 9)()\npage = (ctypes.c_void_p * 2)(ctypes.addressof(text), 9)\n"
        "if ctypes.CDLL(None).vmsplice(os.pipe()[1], page, 1, 0) > 0: print('ESCAPED')",
        "passed",
    ),
    Attack(
        "memory of processes whose first thread has ended",
        "import ctypes, os, threading, time\nfor _ in range(11):\n    if not os.fork(): break\n"
        "def fill():\n    time.sleep(1)\n    held = b'x' * (60 << 20)\n    time.sleep(600)\n"
        "threading.Thread(target=fill).start()\n"
        f"ctypes.CDLL(None).syscall({THREAD_EXIT}, 0)",
        "memory",
    ),
    Attack(
        "a process whose first thread has ended",  # nothing of it is left, or the next attack is not run
        "import ctypes, threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()\n"
        "ctypes.CDLL(None).syscall(" + f"{THREAD_EXIT}, 0)",
        "timeout",
        limits=SHORT,
    ),
    Attack("files without a name", UNNAMED, "disk timeout", limits=FULL),  # bubblewrap's directory is full by itself
    Attack(
        "files without a name that are mapped alone",
        MAPS + "import os, time\nfor _ in range(99):\n    with open('f', 'wb+') as f:\n"
        "        f.write(bytes(2 << 20))\n        f.flush()\n        os.remove('f')\n"
        "        assert libc.mmap(0, 4096, 1, 2, f.fileno(), 0) != 2**64 - 1\ntime.sleep(600)",
        "disk",
    ),
    Attack(
        "descriptors that are hidden in a message",
        "import os, socket\na, b = socket.socketpair()\nsocket.send_fds(a, [b'x'], [1])\nprint('ESCAPED')",
        "failed",
        "Error",
    ),
    Attack(
        "descriptors of a process that nobody may read",
        "import ctypes\nif ctypes.CDLL(None).prctl(4, 0, 0, 0, 0) == 0: print('ESCAPED')",
        "passed",
    ),
    Attack(
        "descriptors of a program that nobody may read",
        "import os, shutil, sys\nwith open(sys.executable, 'rb') as f, open(os.open('copy', 65, 0o311), 'wb') as g:\n"
        "    shutil.copyfileobj(f, g)\nfor _ in range(4): os.fork()\n"
        "os.execv('copy', ['python', '-c', 'import time; time.sleep(600)'])",
        "processes failed",  # failed where a copy is larger than a file may be
        limits=WIDE,
    ),
    Attack("deep recursion", "def f(n): return f(n + 1)\nf(0)", "failed", "RecursionError"),
    Attack(
        "deep recursion without end",
        "import sys\nsys.setrecursionlimit(10**9)\nclass A:\n    def __repr__(self): return repr(self)\nrepr(A())",
        "killed memory",
    ),
    Attack("reading a file", "print('ESCAPED', open('TARGET').read())", "failed", "Error"),
    Attack("writing to a file", "open('TARGET', 'a').write('x')\nprint('ESCAPED')", "failed", "Error"),
    Attack("cutting a file short", "import os\nos.truncate('TARGET', 0)\nprint('ESCAPED')", "failed", "Error"),
    Attack("deletion", "import os\nos.remove('TARGET')\nprint('ESCAPED')", "failed", "Error"),
    Attack(
        "deletion of home",
        "import os, shutil\nshutil.rmtree(os.path.dirname('TARGET'), ignore_errors=True)\n"
        "print('ESCAPED' if not os.path.exists('TARGET') and os.path.exists(os.path.dirname('TARGET')) else 'still')",
        "passed",
    ),
    Attack("renaming", "import os\nos.rename('TARGET', 'TARGET.mine')\nprint('ESCAPED')", "failed", "Error"),
    Attack("modes", "import os\nos.chmod('TARGET', 0)\nprint('ESCAPED')", "failed", "Error"),
    Attack("times", "import os\nos.utime('TARGET', (0, 0))\nprint('ESCAPED')", "failed", "Error"),
    Attack("symlink", "import os\nos.symlink('TARGET', 'l')\nprint('ESCAPED', open('l').read())", "failed", "Error"),
    Attack("hard link", "import os\nos.link('TARGET', 'l')\nprint('ESCAPED', open('l').read())", "failed", "Error"),
    Attack("up and out", "print('ESCAPED', open('../' * 30 + 'TARGET').read())", "failed", "Error"),
    Attack(
        "links in /proc",
        "import os\nfor d in ('cwd', 'root', 'fd/0', 'fd/1', 'exe'):\n    for p in ('self', 'PARENT', 'VICTIM'):\n"
        "        try:\n            q = f'/proc/{p}/{d}' + 'TARGET'\n            print('ESCAPED', q, open(q).read())\n"
        "        except OSError: pass",
        "passed",
    ),
    Attack("accounts", "print('ESCAPED', open('/etc/passwd').read())", "failed", "Error"),
    Attack("listing", "import os\nprint('ESCAPED', os.listdir(os.path.dirname('TARGET')))", "failed", "Error"),
    Attack(
        "writing where programs are",
        "import os, sys\nfor d in ('/usr/bin', '/usr/lib', '/lib', '/etc', '/', os.path.dirname(os.__file__), '/tmp',"
        " '/var/tmp', '/dev', '/run', os.path.dirname(sys.executable), '/home'):\n    try:\n"
        "        open(d + '/LEFT', 'w').close()\n        os.remove(d + '/LEFT')\n"
        "        print('ESCAPED', d)\n    except OSError: pass",
        "passed",
    ),
    Attack("environment", "import os\nprint('ESCAPED' if 'UNMASK_SECRET' in os.environ else 'clean')", "passed"),
    Attack(
        "environment of others",
        "for p in ('PARENT', 'VICTIM', '1', 'self'):\n    try:\n"
        "        if b'UNMASK_SECRET' in open(f'/proc/{p}/environ', 'rb').read(): print('ESCAPED')\n"
        "    except OSError: pass",
        "passed",
    ),
    Attack("a parent's command", "print('ESCAPED', open('/proc/PARENT/cmdline').read())", "failed", "Error"),
    Attack(
        "a parent's memory",
        "import os\nopen(f'/proc/{os.getppid()}/mem', 'rb').read(1)\nprint('ESCAPED')",
        "failed",
        "Error",
    ),
    Attack(
        "signals to others",
        "import os, signal\nfor p, s in ((VICTIM, signal.SIGKILL), (PARENT, signal.SIGCONT)):\n    try:\n"
        "        os.kill(p, s)\n        print('ESCAPED')\n    except OSError: pass\nos.kill(-1, signal.SIGCONT)",
        "passed failed",
    ),
    Attack(
        "killing by what owns a pipe",  # F_SETOWN, F_SETSIG: the kernel sends SIGKILL to whoever owns it
        "import fcntl, os\nr, w = os.pipe()\nfcntl.fcntl(r, 10, 9)\nfcntl.fcntl(r, 8, VICTIM)\nprint('ESCAPED')",
        "failed",
        "PermissionError",
    ),
    Attack(
        "limits of others",
        "import resource\nresource.prlimit(VICTIM, resource.RLIMIT_CPU, (1, 1))\nprint('ESCAPED')",
        "failed",
        "Error",
    ),
    Attack(
        "more than the limits", "import resource as r\nr.setrlimit(r.RLIMIT_AS, (-1, -1))\nprint('ESCAPED')", "failed"
    ),
    Attack(
        "loopback",
        "import socket\nsocket.create_connection(('127.0.0.1', PORT))\nprint('ESCAPED')",
        "failed",
        "Error",
    ),
    Attack(
        "out",
        "import socket\nfor family in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_PACKET):\n"
        "    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW):\n        try:\n"
        "            socket.socket(family, kind)\n            print('ESCAPED')\n        except OSError: pass",
        "passed",
    ),
    Attack("serving", "import socket\nsocket.create_server(('127.0.0.1', 0))\nprint('ESCAPED')", "failed", "Error"),
    Attack(
        "a unix socket",
        "import socket\nsocket.socket(socket.AF_UNIX).connect('PATH')\nprint('ESCAPED')",
        "failed",
        "Error",
    ),
    Attack(
        "a datagram from a pair",
        "import socket\na, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\na.sendto(b'x', 'PATH.datagrams')\n"
        "print('ESCAPED')",
        "failed",
        "Error",
    ),
    Attack(
        "a daemon",
        "import os, signal, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        "        for s in (1, 2, 15): signal.signal(s, signal.SIG_IGN)\n        time.sleep(600)\n    os._exit(0)",
        "passed",
    ),
    Attack(
        "a daemon that holds the output",
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    while True: time.sleep(1)\nprint('gone')",
        "passed",
        "gone",
    ),
    Attack(
        "ctypes",
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "for name, *a in (('unshare', 0x10000000), ('unshare', 0x20000), ('ptrace', 16, VICTIM, 0, 0),"
        " ('chroot', b'.'),"
        " ('mount', b'x', b'.', b'tmpfs', 0, 0), ('setuid', 0), ('setns', 0, 0), ('shmget', 0, 4096, 0o1600),"
        " ('syscall', 425, 8, 0), ('syscall', 319, b'x', 0), ('open_by_handle_at', -100, b'x' * 64, 0),"
        " ('process_vm_readv', VICTIM, 0, 0, 0, 0, 0), ('klogctl', 3, b'x' * 9, 9),"
        " ('fchmodat', -100, b'TARGET', 0, 0),"
        " ('sethostname', b'x', 1), ('personality', 0x40000)):\n"
        "    if getattr(libc, name)(*a) >= 0: print('ESCAPED', name, a)",
        "passed",
    ),
    Attack(
        "root again",
        "import os\nfor act in (lambda: os.setuid(0), lambda: os.setresuid(0, 0, 0), lambda: os.setgroups([0])):\n"
        "    try:\n        act()\n        print('ESCAPED')\n    except OSError: pass\n"
        "if os.getuid() == 0: print('ESCAPED')",
        "passed",
    ),
    Attack(
        "our descriptors",
        "import os\nfor n in range(3, 256):\n    try:\n        os.fstat(n)\n        print('ESCAPED', n)\n"
        "        os.write(n, b'x')\n    except OSError: pass\nos.write(0, b'x')",
        "failed",
        "PermissionError",
    ),
    Attack(
        "left in /dev/shm",
        "import os\ntry:\n    open('/dev/shm/LEFT', 'w').write('x')\nexcept OSError: pass\n"
        "from multiprocessing import shared_memory\nshared_memory.SharedMemory('LEFT-2', True, 100)",
        "passed failed",
    ),
    Attack("devices", "print('ESCAPED', open('/dev/vda', 'rb').read(1), open('/dev/kmsg').read(1))", "failed", "Error"),
    Attack("shells", "import os\nif os.system('echo ESCAPED') == 0: print('ESCAPED')", "passed"),
    Attack("signal to itself", "import os\nos.kill(os.getpid(), 11)", "killed", "SIGSEGV"),
    Attack("signal without a name", "import os\nos.kill(os.getpid(), 40)", "killed", "signal 40"),
    Attack("abort", "import os\nos.abort()", "killed", "SIGABRT"),
    Attack("an exit code", "import sys\nsys.exit(3)", "failed"),
    Attack("a syntax error", "def f(:", "failed", "SyntaxError"),
    Attack("no text", "\0\ud800 = '\udfff'", "failed", "Error"),
]

BENIGN = {
    "asyncio": "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 1\nassert asyncio.run(f()) == 1",
    "threads": "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(4) as p:\n"
    "    assert list(p.map(abs, [-1, -2])) == [1, 2]",
    "a child": "import os\nif not os.fork(): os._exit(7)\nassert os.waitstatus_to_exitcode(os.wait()[1]) == 7",
    "itself as a child": "import subprocess, sys\n"
    "assert subprocess.run([sys.executable, '-c', 'print(1)'], capture_output=True).stdout == b'1\\n'",
    "a file": "import tempfile\nwith tempfile.TemporaryDirectory() as d:\n    open(d + '/f', 'w').write('x')\n"
    "    assert open(d + '/f').read() == 'x'",
    "exit": "print('done')\nexit()",
    "main": "if __name__ == '__main__': print('done')\nelse: raise SystemExit(1)",
    "libraries": "import decimal, hashlib, json, math, random, re, sqlite3, statistics, zoneinfo\n"
    "hashlib.md5(b'x'), sqlite3.connect(':memory:'), zoneinfo.ZoneInfo('UTC')",
}
