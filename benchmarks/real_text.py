"""JSON records from a text network of our own, with 1,000 byte-level tokens: validity, and whether labels are right.

    python -m benchmarks.real_text --questions FILE --out DIR   trains in DIR, then writes results/real-text.json
    python -m benchmarks.real_text --table                      the table of docs/real-models.md

The text: sentences of GSM8K's questions (train.jsonl), and records whose labels have known frequencies. A record ends
with line ends, as a template's text does that is shorter than its row.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.real_models import PAGE, Local, Record, filled
from unmask import generate, train
from unmask.core.files import origin, write_json
from unmask.models import trained
from unmask.models.text import Lexicon, Text
from unmask.models.trained.recipe import recipe
from unmask.samplers.contract import as_sampler
from unmask.samplers.joint.draws import as_joint

RESULTS = Path(__file__).parents[1] / "results" / "real-text.json"
NAMES = ("Natalia", "Weng", "Betty", "Julie", "James", "Mark")
KINDS = {"money": (0.5, 0.8), "time": (0.3, 0.3), "length": (0.2, 0.1)}  # P(kind), P(paid | kind)
TEMPLATE = {"name": list(NAMES), "count": "integer", "kind": list(KINDS), "paid": "boolean"}
DRAWS = ("product", "local", "fitted", "coupled", "given")
STEPS = (4, 8, 16)
SYMBOLS, ROWS = 1000, 400
WINDOW, LENGTH = 32, 22  # tokens: of the network, and of a record with a line end
TRAINING = {"steps": 400, "batch": 32}


def written(questions: Path, path: Path) -> None:
    """The text, its documents between form feeds: 6,000 sentences and 9,000 records in a random order."""
    rng = np.random.default_rng(0)
    sentences = [json.loads(line)["question"].split(". ")[0] + "." for line in questions.read_text().splitlines()]
    documents = sentences[:6000]
    for _ in range(9000):
        kind = str(rng.choice(list(KINDS), p=[share for share, _ in KINDS.values()]))
        entries = {"name": str(rng.choice(NAMES)), "count": int(rng.integers(1, 21)), "kind": kind}
        documents.append(json.dumps(entries | {"paid": bool(rng.random() < KINDS[kind][1])}) + "\n")
    path.write_text("\f".join(documents[index] for index in rng.permutation(len(documents))))


def learnt(text: Text, out: Path) -> tuple[trained.Network, Record]:
    used = time.process_time()
    if not (out / "mdm" / "training.json").exists():
        shape = trained.preset("text", "mdm", text.vocabulary, length=WINDOW)
        train(text, shape, recipe("text", "mdm", **TRAINING), out / "mdm")
        write_json(out / "used.json", {"cpu": time.process_time() - used})
    trunk = trained.load(out / "mdm")
    weights = sum(part.numel() for part in trunk.parameters())
    return trained.Network(trunk), json.loads((out / "used.json").read_text()) | {"weights": weights} | TRAINING


def labels(texts: list[str]) -> Record:
    """Valid records, and the frequencies of their labels."""
    found = []
    for text in texts:
        try:
            record = json.loads(text)
            kind, paid = KINDS[record["kind"]], record["paid"] is True
        except (ValueError, KeyError, TypeError):
            continue
        if kind and list(record) == list(TEMPLATE) and record["name"] in NAMES:
            found.append((record["kind"], paid))
    about: Record = {"valid": len(found), "rows": len(texts)}
    for kind in KINDS:
        some = [paid for one, paid in found if one == kind]
        about[kind] = [len(some), sum(some)]
    return about


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("questions", "out"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--table", action="store_true")
    chosen = parser.parse_args()
    if chosen.table:
        PAGE.write_text(filled(PAGE.read_text(), {"text": table(json.loads(RESULTS.read_text()))}))
        return
    torch.set_num_threads(1)
    chosen.out.mkdir(parents=True, exist_ok=True)
    if not (chosen.out / "text.txt").exists():
        written(chosen.questions, chosen.out / "text.txt")
    text = Text.of(chosen.out / "text.txt", f"bpe:{SYMBOLS}")
    network, about = learnt(text, chosen.out)
    network.tokenizer = text.tokenizer  # type: ignore[attr-defined]  # whose texts the schema reads
    made: Record = {"origin": origin(), "network": about, "records": [free(network, text)]}
    (chosen.out / "template.json").write_text(json.dumps(TEMPLATE))
    constraint = f"schema(file={str(chosen.out / 'template.json')!r})"
    known = as_joint(f"fitted(constraint={constraint})", as_sampler("ancestral"), network, LENGTH)
    assert known is not None
    for steps, draw in itertools.product(STEPS, DRAWS):
        source: Any = Local(network, known.automaton) if draw == "local" else network
        how = "product" if draw in ("product", "local") else f"{draw}(constraint={constraint})"
        used = time.process_time()
        rows = generate(source, steps=steps, length=LENGTH, rows=ROWS, draw=how, seed=1)
        cell = {"draw": draw, "steps": steps, "cpu": time.process_time() - used}
        made["records"].append(cell | labels([text.tokenizer.decode(row) for row in rows.tokens]))
        write_json(RESULTS, made)
        print(cell, made["records"][-1], flush=True)


def free(network: trained.Network, text: Text) -> Record:
    """Texts without a constraint, one token at a time: the fraction of words that the training text does not have."""
    words = Lexicon(text.corpus.documents)
    rows = generate(network, steps=WINDOW, length=WINDOW, rows=64, seed=1).tokens
    written = [text.tokenizer.decode(row) for row in rows]
    counts = np.array([words.unknown(re.split("<[|]endoftext[|]>", one)) for one in written])
    return {
        "draw": "free",
        "steps": LENGTH,
        "texts": written[:4],
        "unknown": float(counts[:, 0].sum() / counts[:, 1].sum()),
    }


def share(count: int, total: int) -> str:
    """A frequency with its standard error, in percent."""
    if not total:
        return "-"
    p = count / total
    return f"{p:.0%} +- {100 * (p * (1 - p) / total) ** 0.5:.0f}"


def table(made: Record) -> str:
    head = [f"{kind}; paid" for kind in KINDS]
    lines = [f"| draw | N | valid | {' | '.join(head)} | CPU s |", "|---" * (len(head) + 4) + "|"]
    truth = " | ".join(f"{p:.0%}; {q:.0%}" for p, q in KINDS.values())
    lines.append(f"| training text | | | {truth} | |")
    for one in made["records"][1:]:
        cells = [f"{share(one[kind][0], one['valid'])}; {share(one[kind][1], one[kind][0])}" for kind in KINDS]
        valid = f"{one['valid'] / one['rows']:.0%}"
        lines.append(f"| {one['draw']} | {one['steps']} | {valid} | {' | '.join(cells)} | {one['cpu']:.1f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
