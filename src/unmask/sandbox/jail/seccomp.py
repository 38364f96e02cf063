"""A seccomp filter, written in BPF, which refuses system calls to every program in a jail.

It refuses calls with effects outside the jail that neither Landlock nor a read-only file system prevents.

- sockets (except a pair of streams, which asyncio needs), modes and owners of files, namespaces and mounts.
- memory and limits of other processes.
- kernel objects that outlive a process: System V and POSIX queues, keys.
- interfaces that tasks do not need: io_uring, bpf, perf.

It also refuses memory that is not charged to a process (shared without a file, pages in pipes, large buffers,
descriptors in messages), and ways to hide descriptors from the keeper. Calls newer than this list do not exist.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from .calls import PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, prctl

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
LAST = 462  # mseal, Linux 6.10
REFUSED = {  # name: number on x86_64 and aarch64; None if it does not exist
    **{"setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7)},
    **{"removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16)},
    **{"chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452)},
    **{"chown": (92, None), "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54)},
    **{"utime": (132, None), "utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88)},
    **{"inotify_init": (253, None), "inotify_init1": (294, 26), "fanotify_init": (300, 262)},
    **{"mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "setns": (308, 268)},
    **{"unshare": (272, 97), "open_tree": (428, 428), "move_mount": (429, 429), "mount_setattr": (442, 442)},
    **{"fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433)},
    **{"quotactl": (179, 60), "quotactl_fd": (443, 443), "acct": (163, 89), "swapon": (167, 224)},
    **{"swapoff": (168, 225), "reboot": (169, 142), "syslog": (103, 116), "vhangup": (153, 58)},
    **{"sethostname": (170, 161), "setdomainname": (171, 162), "settimeofday": (164, 170)},
    **{"clock_settime": (227, 112), "adjtimex": (159, 171), "clock_adjtime": (305, 266)},
    **{"iopl": (172, None), "ioperm": (173, None), "modify_ldt": (154, None), "personality": (135, 92)},
    **{"kexec_load": (246, 104), "kexec_file_load": (320, 294), "uselib": (134, None)},
    **{"init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106)},
    **{"ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272)},
    **{"pidfd_getfd": (438, 438), "process_madvise": (440, 440), "process_mrelease": (448, 448)},
    **{"migrate_pages": (256, 238), "move_pages": (279, 239), "setpriority": (141, 140), "ioprio_set": (251, 30)},
    **{"sched_setparam": (142, 118), "sched_setscheduler": (144, 119), "sched_setattr": (314, 274)},
    **{"sched_setaffinity": (203, 122), "bpf": (321, 280), "perf_event_open": (298, 241)},
    **{"userfaultfd": (323, 282), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426)},
    **{"io_uring_register": (427, 427), "memfd_create": (319, 279), "memfd_secret": (447, 447)},
    **{"add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219)},
    **{"name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265)},
    **{"shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "semget": (64, 190), "semctl": (66, 191)},
    **{"msgget": (68, 186), "msgctl": (71, 187), "mq_open": (240, 180), "mq_unlink": (241, 181)},
    **{"socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201)},
    **{"accept": (43, 202), "accept4": (288, 242), "setsockopt": (54, 208)},
    **{"sendmsg": (46, 211), "sendmmsg": (307, 269)},
    **{"splice": (275, 76), "tee": (276, 77), "vmsplice": (278, 75), "sendfile": (40, 71)},
}
SIGNALS = {"tkill": (200, 130), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240)}
SIGNALS |= {"pidfd_send_signal": (424, 424), "pidfd_open": (434, 434)}
CLONE, CLONE3, PRLIMIT, FCNTL, IOCTL = (56, 220), (435, 435), (302, 261), (72, 25), (16, 29)
SOCKETPAIR, KILL, TGKILL = (53, 199), (62, 129), (234, 131)
MMAP, PRCTL, CLOSE_RANGE = (9, 222), (157, 167), (436, 436)
THREAD, TABLE = 0x10000, 0x400  # flags of clone: a thread, with the descriptors of its process
SHARED = 0x21  # flags of mmap: shared, and without a file
DUMPABLE, APART = 4, 2  # PR_SET_DUMPABLE; CLOSE_RANGE_UNSHARE
NAMESPACES = 0x7E020000  # all flags of clone that make a namespace
OWNERS = (8, 10, 15, 1024, 1026)  # F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE, F_NOTIFY: signals to other processes
LARGER = (1031,)  # F_SETPIPE_SZ
# the allowed ioctls: TCGETS, TCGETS2, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX
DEVICES = (0x5401, 0x802C542A, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)

LOAD, EQUAL, ATLEAST, ANY, AND, RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
ALLOW, ERRNO, KILLED = 0x7FFF0000, 0x00050000, 0x80000000
PERMISSION, UNKNOWN = ERRNO | errno.EPERM, ERRNO | errno.ENOSYS

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, constant


def _argument(number: int) -> Instruction:
    return (LOAD, 0, 0, 16 + 8 * number)  # its low half: all arguments tested here have 32 bits


def _among(values: tuple[int, ...], inside: int, outside: int) -> list[Instruction]:
    """Return `inside` if the loaded value is one of the values, else `outside`."""
    tests = [(EQUAL, len(values) - index, 0, value) for index, value in enumerate(values)]
    return [*tests, (RETURN, 0, 0, outside), (RETURN, 0, 0, inside)]


def program(machine: str, own: int | None = None) -> bytes:
    """The code of the filter. own: the only process, with its group, that may receive signals; None: any."""
    column = list(ARCHITECTURES).index(machine)
    code: list[Instruction] = [
        (LOAD, 0, 0, 4),
        (EQUAL, 1, 0, ARCHITECTURES[machine]),
        (RETURN, 0, 0, KILLED),
        (LOAD, 0, 0, 0),
        (ATLEAST, 0, 1, LAST + 1),  # also x32, whose numbers begin at 2^30
        (RETURN, 0, 0, UNKNOWN),
        (EQUAL, 0, 1, CLONE3[column]),
        (RETURN, 0, 0, UNKNOWN),  # a filter cannot read its flags in memory; programs fall back on clone
    ]
    for numbers in [*REFUSED.values(), *(SIGNALS.values() if own is not None else ())]:
        number = numbers[column]
        if number is not None:
            code += [(EQUAL, 0, 1, number), (RETURN, 0, 0, PERMISSION)]
    refused, no = (RETURN, 0, 0, PERMISSION), (PERMISSION, ALLOW)
    pair = [_argument(0), (EQUAL, 1, 0, 1), refused, _argument(1), (AND, 0, 0, 0xF)]
    inspected: list[tuple[tuple[int, int], list[Instruction]]] = [
        (CLONE, [_argument(0), (ANY, 0, 1, NAMESPACES), refused, (AND, 0, 0, THREAD | TABLE), *_among((THREAD,), *no)]),
        (MMAP, [_argument(3), (AND, 0, 0, SHARED), *_among((SHARED,), *no)]),
        (PRCTL, [_argument(0), *_among((DUMPABLE,), *no)]),
        (CLOSE_RANGE, [_argument(2), (AND, 0, 0, APART), *_among((APART,), *no)]),
        (PRLIMIT, [_argument(0), *_among((0,), ALLOW, PERMISSION)]),
        (FCNTL, [_argument(1), *_among(OWNERS + LARGER, *no)]),
        (IOCTL, [_argument(1), *_among(DEVICES, ALLOW, PERMISSION)]),
        (SOCKETPAIR, [*pair, *_among((1,), ALLOW, PERMISSION)]),  # datagrams could be sent to any path
    ]
    if own is not None:
        targets = (0, own, 2**32 - own)
        inspected += [(KILL, [_argument(0), *_among(targets, ALLOW, PERMISSION)])]
        inspected += [(TGKILL, [_argument(0), *_among((own,), ALLOW, PERMISSION)])]
    for numbers, block in inspected:
        code += [(EQUAL, 0, len(block), numbers[column]), *block]
    code.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def restrict(machine: str, own: int | None) -> None:
    """Apply the filter to this process and its children."""

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))

    code = program(machine, own)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    prctl(PR_SET_SECCOMP, 2, ctypes.byref(Program(len(code) // 8, code)))


def machine() -> str | None:
    """The architecture of this machine; None if the filter does not support it. A 32-bit Python has other calls."""
    name = os.uname().machine
    return name if name in ARCHITECTURES and struct.calcsize("P") == 8 else None
