"""Every input that ever broke the promise, by its name, and others of its kind: short descriptions, no stored files."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.hostile.oracle import Case, Content, device, directory, link_to_itself, pipe, sparse
from tests.hostile.spoiling import (
    HUGE,
    STORE,
    array,
    beside,
    bytes_at,
    config,
    described,
    edited,
    facts,
    filled,
    in_place,
    keyed,
    line,
    npy,
    setting,
    state,
    text_of,
    weights,
    without,
)

DIGITS = "9" * 30
GENERATE = "generate --language interval-5 --length 20 --rows 10 --steps 4 --out o.npy"
TRAIN = "train --language paper-2gram --steps 2 --hidden 16 --heads 2 --length 8 --batch 4 --out n"
READ = "train --text t --steps 2 --layers 1 --hidden 16 --heads 2 --length 8 --batch 4 --out n"
TIME = "model time --preset quick --lengths 8 --batch 1 --steps 4 --repeats 1"
BOARD = (
    "board --rows 10 --samplers ancestral strided --languages interval-5 --lengths 8 --steps 2 4 --seeds 2 --out board"
)
BOMB = "&a [x, x, x, x, x, x, x, x, x, x]"


def _with(command: str, **options: Any) -> list[str]:
    """A command's words, an option of it with another value: that it has once."""
    words = command.split()
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if flag in words:
            at = words.index(flag)
            del words[at : at + 2]
        words += [flag, str(value)]
    return words


def _samples() -> dict[str, Case]:
    huge = describe_many = "(" * 4000 + ")" * 4000
    files: dict[str, Content] = {
        "hdr_deep": npy(describe_many),
        "hdr_nul": npy("{'descr': '<i8', 'fortran_order': False, 'shape': (2,\0 3), }\n"),
        "hdr_syntax": npy("{'descr': '<i8', 'fortran_order': False, 'shape': (2, 3\n"),
        "hdr_token": npy("{'descr': '<i8\n"),
        "hdr_huge": npy(described(shape=(2**62, 2**62))),
        "hdr_negative": npy(described(shape=(-1, 3))),
        "hdr_str": npy(described(shape="ab")),
        "hdr_bool": npy(described(shape=(True, 3)), b"\0" * 24),
        "hdr_int": npy("3"),
        "hdr_dtype": npy(described(descr=[("a", "<i8")])),
        "hdr_objects": npy(described(descr="|O")),
        "hdr_subarray": npy(described(descr=("<i8", (2**31,)))),
        "hdr_void": npy(described(descr="|V0")),
        "hdr_unicode": npy(described(descr="<U99999999999999")),
        "hdr_version": npy(described(), b"\0" * 48, (9, 9)),
        "hdr_long": npy(huge, version=(2, 0)),
        "floats": array(np.ones((2, 3))),
        "negative": array(-np.ones((2, 3), np.int64)),
        "unsigned": array(np.full((2, 3), 2**64 - 1, np.uint64)),
        "one": array(np.array(3)),
        "empty": array(np.zeros((0, 3), np.int64)),
        "wide": array(np.zeros((3, 0), np.int64)),
        "cube": array(np.zeros((2, 2, 2), np.int64)),
        "dates": array(np.zeros((2, 3), "datetime64[s]")),
        "nothing": b"",
        "archive": b"PK\x03\x04" + b"\0" * 30,
        "fifo": pipe,
        "device": device,
        "loop": link_to_itself,
        "sparse": sparse,
        "directory": directory,
    }
    made = {
        f"score_{name}": Case(["score", "s.npy", "--language", "paper-2gram"], {"s.npy": content})
        for name, content in files.items()
    }
    lines = {
        "huge": "[1, " + "9" * 5000 + "]\n",
        "deep": "[" * 100_000 + "]" * 100_000,
        "nan": "[NaN, 1]\n",
        "surrogate": '{"tokens": ["\\ud800"]}\n',
        "ragged": "[1, 2]\n[1]\n",
        "mixed": '[1, 2]\n{"tokens": [1, "2"]}\n',
        "null": "[null, 1]\n",
        "truth": "[true, 1]\n",
        "long": '{"x": "' + "x" * 10**6 + '", "tokens": 3}\n',
        "utf16": "[1, 2]\n".encode("utf-16"),
        "zero": b"\0" * 1000,
        "minus": "[-1, 2]\n",
    }
    made |= {
        f"lines_{name}": Case(["score", "s.jsonl", "--language", "paper-2gram"], {"s.jsonl": content})
        for name, content in lines.items()
    }
    made |= {
        f"given_{name}": Case([*GENERATE.split(), "--given", "s.jsonl"], {"s.jsonl": content})
        for name, content in lines.items()
    }
    interval = {"value": 0.5, "low": 0.1, "high": 0.9}
    for name, change in {
        "impdict": setting("impossible_rows", to=interval),
        "impstr": setting("impossible_rows", to="x"),
        "source": setting("source", to=[1]),
        "origin": setting("origin", to=3),
        "code": setting("origin", "code", to="[/red]"),
        "digest": setting("tokens_sha256", to=None),
        "list": lambda content: [content],
    }.items():
        made[f"acct_{name}"] = Case(
            ["score", "samples.npy", "--language", "interval-5"],
            {"samples.npy": None, "samples.npy.json": ("samples.npy.json", edited("", change))},
        )
    made["acct_given"] = Case(
        ["score", "prompted.npy", "--language", "ngram.json"],
        {"prompted.npy": None, "prompted.npy.json": None, "prompted.given.npy": pipe, "ngram.json": None},
    )
    return made


def _languages() -> dict[str, Case]:
    brackets = {"kind": "brackets", "kinds": 2, "depth": 3, "stop": 0.5}
    hmm = {"kind": "hmm", "initial": [1, 0], "transition": [[0.5, 0.5], [1, 0]], "emission": [[1, 0], [0.5, 0.5]]}
    forms: dict[str, Any] = {
        "brk1": brackets | {"depth": 10**9},
        "brk2": brackets | {"kinds": 10**9},
        "brk3": brackets | {"kinds": 1000, "depth": 1000},
        "brkstop": brackets | {"stop": 1e308},
        "brkdeep": brackets | {"kinds": 1, "depth": 500},
        "brkmany": brackets | {"depth": 12},
        "brkstates": brackets | {"depth": 9},
        "modterms10": {"kind": "modular-sum", "modulus": 10**10, "chained": True},
        "modhuge": {"kind": "modular-sum", "modulus": HUGE},
        "modmoves": {"kind": "modular-sum", "modulus": 3000, "chained": False},
        "modstr": {"kind": "modular-sum", "modulus": "3"},
        "width16": {"kind": "interval", "width": 10**16},
        "width_float": {"kind": "interval", "width": 3.0},
        "width_true": {"kind": "interval", "width": True},
        "nameslong": {"kind": "interval", "width": 3, "names": ["x" * 10**6] * 4},
        "namesnul": {"kind": "interval", "width": 3, "names": ["a", "\0", "[/red]", "\x1b[31m"]},
        "namessurrogate": {"kind": "interval", "width": 3, "names": ["a", "b", "c", "\ud800"]},
        "namestwice": {"kind": "interval", "width": 3, "names": ["a", "a", "a", "a"]},
        "namesnumbers": {"kind": "interval", "width": 3, "names": [1, 2, 3, 4]},
        "hmm_strings": hmm | {"initial": ["1", "0"]},
        "hmm_ragged": hmm | {"transition": [[0.5, 0.5], [1]]},
        "hmm_nan": hmm | {"initial": [float("nan"), 1]},
        "hmm_negative": hmm | {"initial": [-1, 2]},
        "hmm_denormal": hmm | {"initial": [5e-324, 1]},
        "hmm_empty": hmm | {"initial": []},
        "hmm_end": hmm | {"end": 10**30},
        "hmm_dict": hmm | {"emission": {"a": 1}},
        "ngram_order": {"kind": "ngram", "order": 10**9, "initial": [1.0], "transition": [[1.0]]},
        "ngram_deep": {"kind": "ngram", "order": 2, "initial": [0.5, 0.5], "transition": [[[[0.5]]]]},
        "kindlist": {"kind": ["interval"], "width": 3},
        "kindnone": {"kind": None},
        "kindcode": {"kind": "os:system"},
        "unknown": {"kind": "interval", "width": 3, "[/red]\n": 1},
        "list": [1, 2],
        "text": "interval",
    }
    made = {}
    for name, form in forms.items():
        files = {"l.json": text_of(form)}
        for short, words in {
            "show": "show language l.json",
            "gen": "generate --language l.json --out o.npy --rows 20 --length 16 --steps 4",
            "new": "language new l.json --out o.json",
            "newnorm": "language new l.json --out o.json --normalise",
            "plan": "plan --language l.json --length 16 --target 0.1 --json",
        }.items():
            if short in ("show", "gen") or name in ("brk1", "hmm_nan", "modterms10"):
                made[f"{short}_{name}"] = Case(words.split(), files)
    made["show_l_pipe"] = Case(["show", "language", "l.json"], {"l.json": pipe})
    made["show_l_sparse"] = Case(["show", "language", "l.json"], {"l.json": sparse})
    made["show_l_deep"] = Case(["show", "language", "l.json"], {"l.json": "[" * 10**5})
    made["train_interval"] = Case(_with(TRAIN, language="l.json"), {"l.json": text_of(forms["width16"])})
    return made


def _recipes() -> dict[str, Case]:
    head = "name: r\njobs: [samples]\nfixed: {language: interval-5, length: 8}\nrows: 10\n"
    texts: dict[str, str | bytes] = {
        "bomb_grid": f"a: {BOMB}\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
        "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\n"
        "g: &g [*f,*f,*f,*f,*f,*f,*f,*f]\ngrid: {steps: *g}\n" + head,
        "bomb_fixed": "x: &a [1,1,1,1,1,1,1,1,1]\n"
        + "".join(f"x{i}: &{chr(98 + i)} [{','.join([f'*{chr(97 + i)}'] * 9)}]\n" for i in range(9))
        + "fixed: {steps: *j}\n",
        "bomb_gridtop": head + "grid:\n" + "".join(f"  x{i}: [{','.join(map(str, range(50)))}]\n" for i in range(20)),
        "bomb_merge": "a: &a {x: 1}\n"
        + "".join(f"b{i}: &b{i} {{<<: [{', '.join(['*a' if i == 0 else f'*b{i - 1}'] * 9)}]}}\n" for i in range(12))
        + head,
        "deepmap": "a: " + "{a: " * 5000 + "1" + "}" * 5000,
        "deeplist": "a: " + "[" * 100_000,
        "date": head + "grid: {steps: [2001-99-99]}\n",
        "floatbad": head + "grid: {temperature: [!!float abc]}\n",
        "timestamp": head + "grid: {steps: [!!timestamp abc]}\n",
        "under": head + "grid: {steps: [0b_]}\n",
        "under2": head + "grid: {steps: [0x_]}\n",
        "tag": head + "grid: {steps: !!python/object/apply:os.system ['touch was-run']}\n",
        "binary": head + "grid: {steps: !!binary abc}\n",
        "set": head + "grid: !!set {steps}\n",
        "omap": head + "grid: !!omap [steps: 1]\n",
        "twice": head + head,
        "itself": head + "grid: &a {steps: *a}\n",
        "number": "3",
        "nothing": b"",
        "utf16": head.encode("utf-16"),
        "control": head.encode() + b"\x01\x02",
        "surrogate": head + 'fixed: {x: "\\ud800"}\n',
        "code": head + '"\\UFFFFFFFF": 1\n',
        "huge": head + "seeds: " + "9" * 5000 + "\n",
        "seed70": head + f"seeds: [{2**70}]\n",
        "seeds_many": head + "seeds: 1000000000000\n",
        "rows": head.replace("rows: 10", "rows: 1e300"),
        "first_row": head.replace("length: 8", "length: 8, first_row: -1"),
        "model": head.replace("language: interval-5", "model: nowhere"),
        "name": head.replace("name: r", "name: ../../../x"),
        "markup": head.replace("name: r", 'name: "[/red]\\e[31m"'),
        "documents": f"{head}---\n{head}",
        "keys": head + "grid: {1: [2], null: [3], [a]: 4}\n",
    }
    made = {
        f"rec_{name}": Case(
            ["sweep", "run", "r.yaml", "--store", "st", "--workers", "1", "--dry-run"], {"r.yaml": text}
        )
        for name, text in texts.items()
    }
    for name, value in {
        "date": "rows=2001-99-99",
        "huge": f"rows={DIGITS}",
        "list": "steps=[1",
        "none": "=",
        "deep": "steps=" + "[" * 5000,
        "tag": "rows=!!python/name:os.system",
    }.items():
        made[f"sw_set{name}"] = Case(["sweep", "run", "tiny.yaml", "--set", value, "--dry-run"], {"tiny.yaml": None})
    return made


def _networks() -> dict[str, Case]:
    nets: dict[str, Content] = {
        "weightsfifo": ("net", in_place("model.safetensors", pipe)),
        "weightssparse": ("net", in_place("model.safetensors", sparse)),
        "configfifo": ("net", in_place("config.json", pipe)),
        "nan": filled(float("nan")),
        "inf": filled(float("inf")),
        "huge": filled(3e38),
        "cfg_hidhuge": config(hidden=4 * 10**9),
        "cfg_layershuge": config(layers=10**9),
        "cfg_layers1e18": config(layers=10**18),
        "cfg_layershundred": config(layers=100),
        "cfg_vocabulary": config(vocabulary=10**9),
        "cfg_length": config(length=10**12),
        "cfg_zero": config(hidden=0),
        "cfg_float": config(hidden=16.5),
        "cfg_digits": config(hidden=HUGE),
        "cfg_kindlist": config(kind=["mdm"]),
        "cfg_kindnone": config(kind=None),
        "cfg_unknown": config(**{"[/red]": 1}),
        "tj_labelmark": ("net", edited("training.json", setting("origin", "configuration", "label", to="a[/red]"))),
        "tj_labelescape": ("net", edited("training.json", setting("origin", "configuration", "label", to="\x1b[2J"))),
        "tj_language": ("net", edited("training.json", setting("origin", "configuration", "language", to={"kind": 3}))),
        "header": ("net", in_place("model.safetensors", lambda path: path.write_bytes(b"\xff" * 8 + b"{}"))),
        "pickle": ("net", in_place("model.safetensors", lambda path: path.write_bytes(b"\x80\x04cos\nsystem\n."))),
        "shape": ("net", weights("model.safetensors", _other_shape)),
    }
    made: dict[str, Case] = {}
    for name, net in nets.items():
        made[f"net_{name}_learning"] = Case(
            ["learning", "net", "--rows", "20", "--contexts", "5", "--steps", "2", "--json"], {"net": net}
        )
        made[f"net_{name}_generate"] = Case(
            ["generate", "--model", "net", "--out", "o.npy", "--rows", "10", "--steps", "4"], {"net": net}
        )
    states: dict[str, Content] = {
        "meta_bad": facts(lambda said: "{bad"),
        "meta_list": facts(lambda said: [1, 2]),
        "meta_empty": facts(lambda said: "{}"),
        "meta_none": state(lambda header: header.pop("__metadata__") and None),
        "nostep": facts(without("step")),
        "stepstr": facts(setting("step", to="x")),
        "stephuge": facts(setting("step", to=2**62)),
        "recipe_none": facts(setting("recipe", to=None)),
        "recipe_batch": facts(setting("recipe", "batch", to=10**15)),
        "seedstr": facts(setting("recipe", "seed", to="x")),
        "shape": facts(setting("shape", "hidden", to=32)),
        "lang": facts(setting("language", to={"kind": "interval", "width": 1})),
        "journal": facts(setting("journal", to=[1])),
        "journalvalues": facts(setting("journal", to=[{"step": "x"}])),
        "notens": state(lambda header: {"__metadata__": header["__metadata__"]}),
        "missing": state(lambda header: {k: v for k, v in header.items() if "average/blocks.0.before" not in k}),
        "loss": facts(setting("loss", to="x")),
        "lossdigits": facts(setting("loss", to=HUGE)),
    }
    for name, net in states.items():
        made[f"net_state_{name}_resume"] = Case(["train", "--out", "net", "--resume"], {"net": net})
    made["train_steps_twice"] = Case(
        [*TRAIN.split()[:-1], "net"], {"net": ("net", in_place("state.safetensors", pipe))}
    )
    return made


def _texts() -> dict[str, Case]:
    texts: dict[str, Content] = {
        "fifo": pipe,
        "device": device,
        "loop": link_to_itself,
        "sparse": sparse,
        "nothing": b"",
        "one": "a document",
        "same": "twice\n\ntwice",
        "short": "a\n\nb",
        "latin": b"caf\xe9\n\nb",
        "utf16": "a\n\nb".encode("utf-16"),
        "half": b"\xed\xa0\x80\n\nb",
        "nul": b"\0" * 1000 + b"\n\n" + b"\0" * 999,
        "blank": " \n\n \n\n",
        "of_pipes": lambda path: (path.mkdir(), pipe(path / "x")),
        "of_files": lambda path: (path.mkdir(), (path / "a").write_bytes(b"\xff"), (path / "b").write_text("b")),
        "of_none": directory,
    }
    made = {f"text_{name}": Case(READ.split(), {"t": content}) for name, content in texts.items()}
    good = {"t": "\n\n".join(f"{number} cats" * 9 for number in range(9))}
    for name in (
        "bpe:1000000000000000",
        "bpe:-5",
        "gpt2:t",
        "[/red]",
        "os:system",
        "",
    ):
        made[f"text_tokenizer_{name}"] = Case([*READ.split(), "--tokenizer", name], good)
    tokenizers: dict[str, Any] = {
        "pipe": pipe,
        "sparse": sparse,
        "text": b"chars",
        "deep": "[" * 100_000,
        "list": [],
        "other": {"kind": "os:system"},
        "size": {"kind": "chars", "symbols": "ab"},
        "order": {"kind": "chars", "symbols": "ba"},
        "huge": {"kind": "bpe", "name": "x", "symbols": [], "merges": [], "separator": HUGE, "split": "words"},
        "none": {"kind": "bpe", "name": "x", "symbols": [], "merges": [], "separator": 0, "split": "words"},
        "name": {"kind": "bpe", "name": "x" * 10**6, "symbols": [], "merges": [], "separator": 0, "split": "words"},
    }
    for name, content in tokenizers.items():
        make = content if callable(content) or isinstance(content, bytes | str) else text_of(content)
        for command in (
            "generate --model net --rows 2 --steps 2 --out o.txt",
            "generate --model net --prompt a --out o.npy",
        ):
            said = command.split()
            made[f"text_file_{name}_{said[3]}"] = Case(
                said, {"net": ("net", in_place("tokenizer.json", _written(make)))}
            )
    for prompt in ("\udcff", "x" * 10**5, "\0", ""):
        made[f"text_prompt_{prompt[:3]!r}"] = Case(
            ["generate", "--model", "net", "--prompt", prompt, "--out", "o.npy"], {"net": None}
        )
    return made


def _written(content: Any) -> Any:
    """What makes a file of this content."""
    if callable(content):
        return content
    return lambda path: path.write_bytes(content.encode() if isinstance(content, str) else content)


def _other_shape(header: dict[str, Any], data: bytes) -> bytes:
    from tests.hostile.spoiling import tensors

    name = next(name for name in header if name != "__metadata__")
    header[name]["shape"] = [1]
    return tensors(header, data)


STORE_COMMANDS = {
    "status": "sweep status st",
    "resume": "sweep resume st --workers 1",
    "compare": "sweep compare st other",
    "export": "sweep export st --out t.csv",
    "run": "sweep run tiny.yaml --store st --workers 1",
}


def _stores() -> dict[str, Case]:
    stores: dict[str, Content] = {f"bytes{number}": bytes_at(number / 7) for number in range(7)} | {
        "fifo": beside(STORE, pipe),
        "loop": beside(STORE, link_to_itself),
        "zero": beside(STORE, b""),
        "text": beside(STORE, "no lines"),
        "sparse": beside(STORE, sparse),
        "norun": line("run", ""),
        "version": line("run", lambda run: run | {"schema": 10**6}),
        "run_null": line("run", "null"),
        "run_origin": line("run", lambda run: run | {"origin": []}),
        "run_recipe": line("run", lambda run: run | {"recipe": 3}),
        "run_began": line("run", lambda run: run | {"began": "x"}),
        "run_infinite": line("run", lambda run: run | {"began": math.inf}),
        "kind": line("done", lambda done: done | {"type": "x[/red]"}),
        "celldeep": line("cell", "[" * 5000),
        "cellhuge": line("cell", lambda cell: cell | {"values": {"length": HUGE}}),
        "key": line("cell", lambda cell: cell | {"key": "x"}),
        "stem": line("cell", lambda cell: cell | {"stem": "../../x"}),
        "other_job": line("cell", lambda cell: keyed(cell | {"job": "os:system"})),
        "no_values": line("cell", lambda cell: keyed(cell | {"values": {}})),
        "rows_text": line("cell", lambda cell: keyed(cell | {"values": cell["values"] | {"rows": "x"}})),
        "rows_huge": line("cell", lambda cell: keyed(cell | {"values": cell["values"] | {"rows": 10**15}})),
        "length_float": line("cell", lambda cell: keyed(cell | {"values": cell["values"] | {"length": 1e300}})),
        "language": line("cell", lambda cell: keyed(cell | {"values": cell["values"] | {"language": "/dev/zero"}})),
        "records_null": line("done", lambda done: done | {"records": None}),
        "records_int": line("done", lambda done: done | {"records": 3}),
        "records_text": line("done", lambda done: done | {"records": ["x"]}),
        "records_nan": line("done", lambda done: done | {"records": [{"measure": "ser", "value": math.nan}]}),
        "records_empty": line("done", lambda done: done | {"records": [{}]}),
        "seconds": line("done", lambda done: done | {"seconds": "x"}),
        "blocks": line("done", lambda done: done | {"blocks": [[-1, 10**30]]}),
        "tally": line("block", lambda block: block | {"tally": {"x": 1.5}}),
        "tally_empty": line("block", lambda block: block | {"tally": {}}),
        "rows_over": line("block", lambda block: block | {"rows": 10**18}),
        "rows_negative": line("block", lambda block: block | {"first": -5}),
        "lock_junk": beside("lock", '{"pid": "x", "host": 3, "since": 0}'),
        "lock_junk2": beside("lock", '{"pid": 1, "host": "x"}'),
        "lock_deep": beside("lock", "[" * 4096),
        "lock_since": beside("lock", '{"pid": 1, "host": "x", "since": 1e300}'),
        "lock_fifo": beside("lock", pipe),
        "lock_link": beside("lock", lambda path: path.symlink_to("elsewhere")),
        "log_fifo": beside("workers.log", pipe),
        "files": beside("files", b"no directory"),
    }
    made = {}
    for name, store in stores.items():
        for command, words in STORE_COMMANDS.items():
            files: dict[str, Content] = {"st": store}
            files |= {"tiny.yaml": None} if command == "run" else {}
            files |= {"other": ("store", lambda path: None)} if command == "compare" else {}
            made[f"st_{name}_{command}"] = Case(words.split(), files, changes=("st/",))
    _, spoil = line("done", lambda done: done | {"records": [{"measure": "\udcff"}]})
    made["st_of_a_board"] = Case(
        BOARD.split(), {"board": ("board", lambda path: spoil(path / "sweep"))}, changes=("board/",)
    )
    return made


def _numbers() -> dict[str, Case]:
    short = {"gen": GENERATE, "train": TRAIN, "time": TIME}
    asked: dict[str, dict[str, list[Any]]] = {
        "gen": {
            "length": [DIGITS, 2**63, 10**12], "steps": [DIGITS, 10**12], "rows": [10**9, DIGITS], "top-k": [2**64],
            "seed": [2**70, DIGITS], "first-row": [2**63 - 1, -1, DIGITS], "rows-per-prompt": [10**12],
            "temperature": ["nan", "inf", "1e308", "-1"], "top-p": ["nan", "0", "2"], "batch": [10**12],
            "sampler": [
                "gibbs(sweeps=1000000000000)", "math:sqrt", "os:abort", "os:system(command='touch was-run')",
                "blocks(inner=" * 50 + "ancestral" + ")" * 50, "gibbs(inner=" * 5000 + ")" * 5000, "gibbs(stride=8)",
                "blocks(block_length=1000000000000)", "ancestral(x=1)", "[/red]", "\ud800", "x" * 10**5, "",
                "blocks(block_length=" + "9" * 5000 + ")", "blocks(**{})", "blocks(block_length=lambda: 1)",
            ],
            "schedule": ["[" * 5000, "[1e308, 1e308]", "[nan]", "['a']", "polynomial(power=1e308)", "[0.5, -0.5, 1]"],
            "out": ["a\nb.npy", "a\0b.npy", "x" * 240 + ".npy", "no/where.npy", "/dev/null", "/proc/x.npy", ".npy",
                "o.txt", "\udcff.npy"],
            "given": ["/dev/zero", "/proc/self/mem", "nowhere"],
        },
        "train": {
            "steps": [10**12, DIGITS], "length": [DIGITS, 10**12], "layers": [10**12, DIGITS], "samples": [10**12,
                DIGITS],
            "sampling-steps": [DIGITS], "threads": [DIGITS, 10**6], "hidden": [10**12, 0], "heads": [0, 7, DIGITS],
            "batch": [10**12], "rate": ["nan", "inf", "-1"], "average": ["2", "nan"], "accumulate": [10**12],
            "device": ["cuda:99", "x"], "precision": ["float1"], "preset": ["nope"], "model": ["nope"], "seed": [2**70],
        },
        "time": {"layers": [10**12], "threads": [10**12, DIGITS], "lengths": [10**12], "batch": [10**12],
                 "steps": [10**12], "repeats": [10**12], "vocabulary": [10**12, DIGITS], "hidden": [10**12]},
    }  # fmt: skip
    made = {}
    for command, options in asked.items():
        for option, values in options.items():
            for number, value in enumerate(values):
                words = _with(short[command], **{option: value})
                if option == "schedule":
                    words = _with(" ".join(_with(short[command], steps=2)), schedule=value)
                made[f"{command}_{option}_{number}"] = Case(words)
    others = {
        "th2_length": f"theory exact --language paper-2gram --length {DIGITS} --steps 4",
        "thx_steps": f"theory exact --language interval-5 --length 20 --steps {DIGITS}",
        "tht_steps": f"theory table --language interval-5 --length 20 --rows 10 --steps {DIGITS}",
        "tht_rows": f"theory table --language interval-5 --length 20 --rows {DIGITS} --steps 4",
        "plan_length0": "plan --language interval-5 --length 0 --target 0.1",
        "plan_round": "plan --language interval-5 --length 20 --target 0.1 --step-ms inf --ar-token-ms 1",
        "plan_zero": "plan --language interval-5 --length 20 --target 0.1 --step-ms 0 --ar-token-ms 0",
        "plan_tiny": "plan --language interval-5 --length 20 --target 5e-324 --step-ms 5e-324 --ar-token-ms 1e308",
        "plan_batch": f"plan --language interval-5 --length 20 --target 0.1 --batch {DIGITS}",
        "show_len": f"show language paper-2gram --length {DIGITS}",
        "show_rows": f"show language paper-2gram --length 16 --rows {DIGITS} --steps 4",
        "show_rows_of_nothing": f"show language paper-2gram --length 16 --rows {DIGITS}",
        "show_seed": f"show language paper-2gram(seed={DIGITS})",
        "fit_smoothing": "language fit text --out o.json --smoothing 1e308",
        "fit_order": f"language fit text --out o.json --order {DIGITS}",
        "fit_vocabulary": "language fit text --out o.json --max-vocabulary 0",
        "demo_rows": "demo --set rows=1000000000000 --out d",
        "board_rows": "board --quick --rows 1000000000000 --samplers ancestral --languages interval-5 --out b",
        "board_out": "board compare ancestral strided --rows 5 --languages interval-5 --lengths 8 --out text",
        "train_out": f"{TRAIN} --out text",
        "chat_above": "chat --model ../x --length 4",
        "check_twice": "model check a/b--c",
        "play_no_text": "play --language interval-5 --length 8 --rows 3 --steps 2 --out o.html --device \udcff",
        "board_against": "board --quick --rows 10 --samplers ancestral --languages interval-5 --against nope --out b",
        "learning_length": "model learning net --length 0",
        "figure_rows": "report --recipe figure-1 --quick --set rows=1000000000000 --out f",
        "audit_steps": f"audit samples.npy --language interval-5 --steps {DIGITS}",
        "audit_order": "audit samples.npy --language interval-5 --steps 4 --order samples.npy",
        "audit_order_of_text": "audit samples.npy --language interval-5 --steps 4 --order text",
        "audit_order_of_a_net": "audit samples.npy --language interval-5 --steps 4 --order net/model.safetensors",
        "status_nowhere": "sweep status nowhere",
        "no_command": "nope",
        "no_option": "generate --nope",
        "markup": "generate [/red] \x1b[31m",
    }
    files: dict[str, Content] = {"text": None, "net": None, "samples.npy": None}
    made |= {name: Case(words.split(" "), files) for name, words in others.items()}
    for name, value in {
        "digits": "9" * 5000,
        "word": "abc",
        "zero": "0",
        "minus": "-1",
        "empty": "",
        "unicode": "٣",
        "spaces": " 2 ",
        "many": "99999999",
    }.items():
        made[f"UT_{name}"] = Case(GENERATE.split(), environment={"UNMASK_THREADS": value})
    for name, value in {"word": "abc", "digits": "9" * 5000, "two": "2"}.items():
        made[f"WORLD_{name}"] = Case(TRAIN.split(), environment={"WORLD_SIZE": value})
    made["train_decay"] = Case(
        _with(TRAIN, steps=1, weight_decay=1e30), changes=("n",)
    )  # which keeps its first checkpoint
    made["RANK_word"] = Case(TRAIN.split(), environment={"WORLD_SIZE": "2", "RANK": "x"}, changes=("n",))
    return made


def cases() -> dict[str, Case]:
    return _samples() | _languages() | _recipes() | _networks() | _texts() | _stores() | _numbers()
