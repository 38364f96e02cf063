"""Names that a stranger tries, and the sentence that leads on to the right command.

None of them is an alias: an error names the right command. tests/cli/test_leads.py checks that each command in
this file exists.
"""

from __future__ import annotations

from unmask.core.registry import modules

SHOW = "`unmask show {0}` lists {0}s, `unmask show {0} NAME` describes one"
LEADS = {  # for each program, words and the sentence that leads on
    "unmask": {
        "compare versus vs": "`unmask board compare A B` compares samplers, `unmask eval compare A B` compares records",
        "rank bench benchmark": "`unmask board` ranks samplers, `unmask model time` measures the speed of models",
        "language languages presets": SHOW.format("language"),
        "sampler samplers decoder decoders": SHOW.format("sampler"),
        "schedule schedules": SHOW.format("schedule"),
        "models": SHOW.format("model"),
        "task tasks": SHOW.format("task"),
        "job jobs": SHOW.format("job"),
        "list ls": "`unmask show sampler` lists samplers, also language, schedule, model, task and job",
        "check test verify lint": "`unmask audit SAMPLES` tests a loop by its samples, `unmask doctor` the machine",
        "law conformance": "`unmask audit SAMPLES` tests whether a loop writes the distribution of its sampler",
        "info env status": "`unmask doctor` shows versions and devices, `unmask sweep status STORE` a sweep",
        "install setup": "`unmask doctor` shows the installed packages, and how to install the others",
        "resume continue retry": "`unmask sweep resume STORE` goes on; other commands go on if you repeat them",
        "run grid": "`unmask sweep run RECIPE` runs a grid; to write sequences, use `unmask generate`",
        "export csv": "`unmask sweep export STORE` writes a table of a sweep",
        "merge": "`unmask sweep merge` joins the stores of a sweep",
        "claims claim reproduce reproduction paper": "`unmask demo` shows the main result, `unmask theory list` the "
        "theorems; in a clone, `python -m reproduction` measures each claim",
        "theorem theorems lemma exact": "`unmask theory list` lists theorems, `unmask theory exact` computes errors",
        "figure figures figure-1 figure-2": "`unmask report --recipe figure-1` measures a figure of the paper",
        "plot draw visualize html page": "`unmask report DIR` draws results, `unmask play` animates one sequence",
        "player animate trace watch": "`unmask play` animates one sequence and writes its trace",
        "sample write decode infer simulate": "`unmask generate` writes sequences, with a language or a model",
        "chat complete": "`unmask generate --chat --prompt TEXT` asks a model",
        "perplexity ser entropy metrics": "`unmask score SAMPLES` measures SER and perplexity of sequences",
        "evaluate lm-eval lm_eval": "`unmask eval` evaluates models on tasks, `unmask score` measures sequences",
        "judge": "`unmask model judge TEXTS` scores texts with an open model",
        "time speed": "`unmask model time` measures seconds per model call",
        "learning": "`unmask model learning` measures the learning error of a network",
        "endpoint serve server": "`unmask audit --endpoint URL` tests a server; this package has no server",
        "loss cost kl": "`unmask gap` measures the loss by parallel decoding, `unmask theory exact` computes it",
        "ar choose advice": "`unmask plan` compares a masked model with an AR model",
        "quickstart tutorial notebook": "start with `unmask demo`; docs/quick-start.md goes on",
    },
    "unmask show": {
        f"{kind}s": f"`unmask show {kind}` lists all"
        for kind in ("language", "sampler", "schedule", "model", "task", "job")
    },
    "unmask sweep": {"list show": "`unmask sweep status STORE` shows the cells of a sweep"},
    "unmask eval": {"resume": "the same `unmask eval` again goes on where it stopped"},
    "unmask model": {
        "compare": "`unmask eval compare A B` compares two models, `unmask plan` a masked with an AR model",
        "list show": SHOW.format("model"),
    },
    "unmask plan": {
        "--causal-model --ar --ar-model": "`unmask eval --model MODEL --causal-model AR` measures both on a task, "
        "`unmask plan --results EVAL` chooses; for times alone `unmask model time`",
    },
    "unmask board run": {"--budgets --n --knobs": "`unmask board --steps 8 32` sets the numbers of steps"},
}
OTHERS = {  # the sentence for all other words
    "unmask": "`unmask --help` lists all commands",
    "unmask board": "`unmask board --languages {0}` ranks samplers on a language, `--samplers {0}` ranks these",
    "unmask eval": "`unmask eval --model MODEL --task {0}` evaluates a model on a task",
    "unmask model": "`unmask show model {0}` describes a model",
    "unmask sweep": "`unmask sweep run {0}` measures a recipe",
    "unmask theory": "`unmask theory show {0}` evaluates a statement, `unmask theory list` lists all",
}
KINDS = ("sampler", "schedule", "task")  # whose names can be found without an import


def lead(program: str, word: str) -> str:
    """The sentence that leads from this word to a command; "" if it has no entry."""
    entries = LEADS.get(program, {})
    return next((sentence for words, sentence in entries.items() if word.lower() in words.split()), "")


def usual(program: str, word: str) -> str:
    """The sentence for a word that resembles no command; "" if the program has none."""
    if program == "unmask show":
        kind = next((one for one in KINDS if word in modules(one)), "language")
        return f"name its kind first, as in `unmask show {kind} {word}`"

    return OTHERS.get(program, "").format(word)
