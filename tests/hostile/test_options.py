"""Every option of every command with what nobody would give it: new options are here by themselves."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from tests.commands import every
from tests.hostile.oracle import Case, Server, directory, link_to_itself, pipe
from tests.hostile.server import LONG
from tests.hostile.test_files import EXAMPLES, check
from unmask.cli.options import Option, options_of

WHOLE = ("0", "-1", "1", "2", "3", "+2", "1.5", "1e3", "x", "", " 1", "1_0", "0x10", "٣", "nan", "inf", "[/red]", "-")
WHOLE += ("9" * 12, "9" * 15, "9" * 18, "9" * 19, "9" * 30, "9" * 5000, "-" + "9" * 30, str(2**31), str(2**63 - 1))
NUMBERS = (*WHOLE, "-0.0", "5e-324", "1e-300", "1e308", "1e999", "-inf", "0.1", "0.999999", "1e-9", "NaN", "1,5")
WORDS = ("", "x", "[/red]", "\x1b[2J", "a\nb", "\udcff", "x" * 5000, "os:system", "os:abort", "math:sqrt", "nowhere:X")
WORDS += ("os:system(command='touch was-run')", "interval-5", "paper-2gram", "cosine", "ancestral", "gibbs(stride=8)")
WORDS += ("blocks(block_length=0)", "blocks(inner=blocks)", "interval(width=100000000000)", "modular-sum(modulus=0)")
WORDS += ("cuda:9", "cuda", "meta", "[0.5, 0.5]", "[nan]", "[" * 3000, "polynomial(power=-1)", "brackets(depth=10**7)")
WORDS += ("(", ")", "a(b=c", "x(y=__import__('os').system('touch was-run'))", "directory", "pipe", "l.json", "../x")
PATHS = ("nowhere", "nowhere/x.npy", "/dev/null", "/dev/full", "/proc/self/mem", "/proc/x.npy", "", "x" * 300, "-")
PATHS += ("pipe", "loop", "directory", "a\nb.npy", "\udcff.npy", "x.npy", "x.jsonl", "x.json", "x" * 235 + ".npy")
PATHS += (".npy", "l.json", "\u202e.npy", "[/red].npy", "x.csv", "net", "store", "samples.npy", "net/x.npy")
BASE = {
    "demo": "--set rows=5 --out d",
    "show language": "paper-2gram --length 8 --rows 5",
    "model fit": "text --out o.json --order 2",
    "board compare": "ancestral fixed-size --rows 5 --languages interval-5 --lengths 8 --seeds 1 --out b",
    "board run": "--rows 5 --samplers ancestral --languages interval-5 --lengths 8 --steps 2 --seeds 1 --out b",
    "generate": "--language interval-5 --length 8 --rows 3 --steps 2 --out o.npy",
    "play": "--language interval-5 --length 8 --rows 3 --steps 2 --out o.html",
    "show model": "mdlm-owt",
    "model check": "net",
    "eval run": "--model net --task sudoku --limit 1 --length 4 --out f",
    "eval check": "store",
    "eval show": "store",
    "eval compare": "store store",
    "eval parallel run": "--quick --tasks lists(operation=copy) --samplers fixed-size --items 2 --out f",
    "eval parallel read": "wino.csv --thresholds 80",
    "eval parallel compare": "items.jsonl --first items --second items",
    "model judge": "text",
    "gap": "--language interval-5 --length 8 --rows 5 --steps 4",
    "audit": "samples.npy --language interval-5 --steps 4",
    "diff": "t.json --language interval-5 --steps 2",
    "theory exact": "--language interval-5 --length 8 --steps 2",
    "theory table": "--language paper-2gram --length 8 --rows 5 --steps 2",
    "theory figure": "--language paper-2gram --length 8 --rows 5 --steps 2 --out f",
    "theory show": "lemma-b9 --language paper-2gram --length 8",
    "plan": "--language interval-5 --length 8 --target 0.1",
    "model time": "--preset quick --lengths 8 --batch 1 --steps 2 --repeats 1",
    "train": "--language paper-2gram --steps 1 --hidden 8 --heads 1 --layers 1 --length 4 --batch 2 --out n",
    "model learning": "net --rows 5 --contexts 3 --steps 2",
    "sweep run": "tiny.yaml --store st --dry-run",
    "sweep status": "store",
    "sweep resume": "store",
    "sweep retry": "store",
    "sweep export": "store --out t.csv",
    "sweep compare": "store store",
    "report": "store --out d",
    "score": "samples.npy --language interval-5",
}  # what is quickly done
EMPTY = ("theory list",)
BASE |= dict.fromkeys(EMPTY, "") | {"show sampler": "blocks", "show schedule": "cosine", "show job": "samples"}
BASE |= {"show task": "sudoku"}
LEFT = ("compiled", "open")  # which start others: compiler, browser
FILES = {"net": None, "store": None, "text": None, "tiny.yaml": None, "samples.npy": None, "pipe": pipe}
FILES |= {
    "loop": link_to_itself,
    "directory": directory,
    "l.json": '{"kind": "interval", "width": 3}',
}
FILES |= {"wino.csv": "task,tps,accuracy\navg,1.0,86\navg,6.0,78\n"}
FILES |= {"items.jsonl": '{"item": 0, "right": 1.0, "calls": 4, "canvas": 32, "written": 9}\n'}
TRACE = {"vocabulary": 16, "rows": [{"length": 8, "events": [[1, at, at, 0.5] for at in range(8)]}]}
FILES |= {"t.json": json.dumps({"format": "unmask-trace", "version": 1} | TRACE)}
RESULTS = ("st", "store", "b", "p", "d", "f", "n", "net")  # what commands go on with where they were interrupted


ELSEWHERE = ("eval lm-eval", "doctor")  # whose words are another program's, and what reads the machine (tests/cli)
ALL = {name: list(options_of(command)) for name, command in every().items() if name not in ELSEWHERE}


def test_every_command_is_tried():
    assert set(ALL) == set(BASE), "say in BASE how each command is quickly done"


def _nasty(option: Option, random: Random) -> str:
    if option.choices:
        return random.choice((*option.choices, *WORDS))
    return random.choice({int: WHOLE, float: NUMBERS, Path: PATHS}.get(option.kind, WORDS))


def spoiled(command: str, random: Random) -> Case:
    """A command that is right but for one to three words."""
    options = [option for option in ALL[command] if option.name not in LEFT]
    words = BASE[command].split()
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        option = random.choice(options) if options and random.random() < 0.95 else None
        if option is None:
            words.insert(random.randrange(len(words) + 1), random.choice((*WORDS, "--nope", "--", "--help=1", "--out")))
            continue
        at = words.index(option.flag) if option.flag in words else None
        values = [_nasty(option, random) for _ in range(random.choice((1, 1, 2, 3)) if option.many else 1)]
        if option.positional:
            words[:1] = values
        elif option.kind is bool:
            words.append(random.choice((option.flag, f"{option.flag}=1")))
        elif at is None:
            words += [option.flag, *values] if random.random() < 0.8 else [f"{option.flag}={values[0]}"]
        else:
            words[at + 1 : at + 2] = values
    return Case([*command.split(), *words], FILES, changes=("",) if command.split() in LONG else RESULTS)


@pytest.mark.rotates(4)
@pytest.mark.parametrize("times", [1, pytest.param(3, marks=pytest.mark.long)])
@pytest.mark.parametrize("command", ALL)
def test_options(server: Server, command: str, times: int):
    for number in range(times * (2 + len(ALL[command])) // 3 * EXAMPLES):
        check(server, spoiled(command, Random(number)))
