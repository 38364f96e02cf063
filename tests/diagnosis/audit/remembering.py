"""Rows of ours are the same in every audit of one setting: made once, where many audits are made."""

from __future__ import annotations

from copy import copy

from unmask.diagnosis.audit import rare, suspects

BENCHES: dict = {}
RARE: dict = {}
generate = rare.generate
SEED = 0  # of the reference rows; elsewhere it depends on the samples


class Remembering(suspects.Bench):
    """What is made for it is kept for all its copies, by whether steps are compared, which each copy says again."""

    def __init__(self, *setting):
        super().__init__(*setting)
        self.made = {}

    def kept(self, key, work):
        key = key, self.ordered, self.packed
        if key not in self.made:
            self.made[key] = work()
        return self.made[key]

    @property
    def reference(self):
        return self.kept("reference", lambda: self._counted(self.generated, False))

    def make(self, specimen, times=2):
        key = specimen.name, specimen.value, times
        return self.kept(key, lambda: super(Remembering, self).make(specimen, times))


def remembered(meant, rows, length, ordered=False, seed=0):
    sampler, delta = meant.sampler, tuple(meant.delta.tolist())
    how = str(meant.exact.source()), str(meant.filters), meant.draft, type(sampler), repr(vars(sampler)), delta
    key = *how, rows, length, ordered, SEED
    if key not in BENCHES:
        BENCHES[key] = Remembering(meant, rows, length, ordered, suspects.REFERENCE + SEED)
    return copy(BENCHES[key])


def remembered_rare(denoiser, *, sampler, rows, seed, **how):
    """The rows of the test of rare tokens."""
    key = str(denoiser.source()), repr(sampler), repr(vars(sampler)), rows, str(how), SEED
    if key not in RARE:
        RARE[key] = generate(denoiser, sampler=sampler, rows=rows, seed=seed, **how)
    return RARE[key]
