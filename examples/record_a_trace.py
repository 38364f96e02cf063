"""Record any generation loop with twenty lines, and play the trace:

python examples/record_a_trace.py trace.json
unmask play trace.json --language paper-2gram

The loop is like LLaDA's: low-confidence remasking in plain torch, on anything with `logits = model(ids).logits`. The
model here is `unmask.oracle`, the exact denoiser of a language with the interface of a Hugging Face model. Replace it
by your model, and pass the recorder the text of each token.
"""

from __future__ import annotations

import json
import sys

import torch

import unmask


class Recorder:
    """Call `look(ids, probability)` after each step: ids (B, L), and (B, L) how likely each token was when drawn."""

    def __init__(self, ids, mask_id, vocabulary, symbols=None, sampler="my loop"):
        self.mask, self.step, self.before = mask_id, 0, ids.tolist()
        self.about = {"format": "unmask-trace", "version": 1, "vocabulary": vocabulary, "sampler": sampler}
        self.about |= {"symbols": symbols} if symbols else {}
        given = [[[p, t] for p, t in enumerate(row) if t != mask_id] for row in self.before]
        self.rows = [{"length": ids.shape[1], "given": start, "events": []} for start in given]

    def look(self, ids, probability):
        self.step += 1
        for row, old, new, ps in zip(self.rows, self.before, ids.tolist(), probability.tolist(), strict=True):
            changed = [p for p in range(len(new)) if new[p] != old[p]]
            row["events"] += [[self.step, p, None, None] for p in changed if old[p] != self.mask]
            row["events"] += [[self.step, p, new[p], ps[p]] for p in changed if new[p] != self.mask]
        self.before = ids.tolist()

    def write(self, path):
        with open(path, "w") as file:
            json.dump(self.about | {"rows": self.rows}, file)


@torch.no_grad()
def generate(model, ids, mask_id, steps, look, generator):
    """Draw all that is hidden, keep the surest of it, and mask the rest again: an equal share in each step."""
    hidden = (ids == mask_id).sum(1)
    for step in range(steps):
        masked = ids == mask_id
        distribution = model(ids).logits[..., :mask_id].double().softmax(-1)
        drawn = torch.multinomial(distribution.flatten(0, 1), 1, generator=generator).view_as(ids)
        probability = distribution.gather(2, drawn.unsqueeze(2)).squeeze(2)
        surest = torch.where(masked, probability, -torch.inf).argsort(1, descending=True)
        for row in range(len(ids)):
            count = int(masked[row].sum() - hidden[row] * (steps - step - 1) // steps)
            keep = surest[row, :count]
            ids[row, keep] = drawn[row, keep]
        look(ids, probability)
    return ids


def main(path: str = "trace.json", rows: int = 20, length: int = 32, steps: int = 6) -> None:
    language = unmask.languages.load("paper-2gram")
    mask_id = language.vocabulary
    model = unmask.oracle(language, mask_id=mask_id)
    ids = torch.full((rows, length), mask_id)
    recorder = Recorder(ids, mask_id, language.vocabulary, sampler="LLaDA-like loop")
    generate(model, ids, mask_id, steps, recorder.look, torch.Generator().manual_seed(0))
    recorder.write(path)


if __name__ == "__main__":
    main(*sys.argv[1:2])
