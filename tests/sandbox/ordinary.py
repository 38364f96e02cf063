"""A program for an ordinary user: levels, and what reaches other processes or the user's files, as one line of JSON."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile

from attacks import ATTACKS

from unmask.core.errors import UnmaskError
from unmask.sandbox import Sandbox

NAMES = (
    "fork bomb",
    "reading a file",
    "modes",
    "times",
    "cutting a file short",
    "signals to others",
    "limits of others",
)
NAMES += ("killing by what owns a pipe", "environment of others", "a parent's memory", "a daemon", "root again")
NAMES += tuple(attack.name for attack in ATTACKS if attack.name.split()[0] in ("memory", "descriptors", "files"))
KINDS = (("bubblewrap", None), ("landlock", None), ("landlock", 5))


def wrong(box: Sandbox) -> list[str]:
    """Attacks that were not reported as what they are, or have reached something."""
    found = []
    for attack in ATTACKS:
        if attack.name not in NAMES:
            continue
        with tempfile.NamedTemporaryFile("w+") as file, subprocess.Popen(["sleep", "100"]) as victim:
            file.write("ours")
            file.flush()
            program = attack.program.replace("TARGET", file.name).replace("VICTIM", str(victim.pid))
            ran = box.run(program.replace("PARENT", str(os.getpid())), attack.limits)
            reached = (
                victim.poll() is not None or os.stat(file.name).st_mode & 0o777 != 0o600 or "ESCAPED" in ran.stdout
            )
            victim.kill()
            file.seek(0)
            if ran.outcome not in attack.outcome.split() or reached or file.read() != "ours":
                found.append(f"{attack.name}: {ran}")
    return found


said: dict[str, tuple[str, list[str]]] = {}
for kind in KINDS:
    try:
        with Sandbox(*kind).passing() as box:
            said[json.dumps(kind)] = "", wrong(box)
    except UnmaskError as error:
        said[json.dumps(kind)] = str(error), []
print(json.dumps(said))
