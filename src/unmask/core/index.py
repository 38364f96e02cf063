"""The names that each module registers: a name is found without an import of the others.

`python -m tests.index --write` writes the table; tests/core/test_index.py holds it true.
"""

PACKAGES = {"kind of language": "languages.", "sampler": "samplers.rules.", "task": "tasks."}
BY_MODULE: dict[str, dict[str, str]] = {
    "kind of language": {
        "answers": "answers",
        "grammars": "brackets modular-sum",
        "hmm": "hmm",
        "interval": "interval",
        "ngram": "ngram",
    },
    "sampler": {
        "orders": "ancestral dyadic first-hitting fixed-size left-to-right strided",
        "published": "as-published-mdlm dream llada",
        "speculative": "autoregressive self-speculative speculative",
        "blocks": "blocks",
        "confidence": "entropy low-confidence margin top-probability",
        "adaptive": "entropy-bounded entropy-sum factor klass localleap threshold",
        "repair": "gibbs token-editing wino",
        "remasking": "p2 remdm",
        "uniform": "renoise uniform-ancestral",
    },
    "schedule": {
        "samplers.schedules": "linear cosine cosine-squared polynomial sqrt beta geometric theorem-4.2",
        "theory.optimal": "optimal fewest-pairs",
    },
    "task": {
        "latin": "latin",
        "lists": "lists",
        "sudoku": "sudoku",
        "sums": "sums",
    },
}


def modules(noun: str) -> dict[str, str]:
    """Each built-in name of a registry with its module; schedules are in the order of the table, others sorted."""
    table, package = BY_MODULE.get(noun, {}), f"unmask.{PACKAGES.get(noun, '')}"
    names = {name: package + module for module, own in table.items() for name in own.split()}
    return names if noun == "schedule" else dict(sorted(names.items()))
