"""A path from a generation and the path of its trace are the same; contexts are those of the trace."""

from __future__ import annotations

from operator import attrgetter

import pytest
import torch

import unmask
from tests.diagnosis.gap.toys import Toy, V
from unmask.core.errors import UnmaskError
from unmask.diagnosis.gap.path import of_generation, of_trace

SAMPLERS = ["ancestral", "threshold", "blocks(block_length=2)", "remdm", "gibbs", "token-editing(threshold=0.6)"]


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("given", [None, [[0, 3, 3, 3, 1], [3, 3, 2, 3, 3]], [[0, 3, 3], [3, 3, 2, 3, 3]]])
def test_a_trace_has_the_path_of_its_generation(sampler, given):
    toy = Toy(5, 0.4)
    if given is not None and len(given[0]) == 3:
        toy = unmask.denoisers.Ideal(unmask.languages.load("paper-2gram"))
        given = [[0, 8, 8], [8, 8, 2, 8, 8]]
    made = unmask.generate(toy, sampler=sampler, steps=3, length=None if given else 5, rows=None if given else 20,
                           given=given, seed=1, trace=True)  # fmt: skip
    trace = made.trace()
    own, other = of_generation(made), of_trace(trace)
    for name in ("row", "number", "step", "entries.positions", "entries.tokens", "written", "steps", "valid"):
        torch.testing.assert_close(*map(attrgetter(name), (own, other)), msg=name)
    steps = torch.arange(len(own.row))
    contexts = own.contexts(steps)
    torch.testing.assert_close(contexts, other.contexts(steps))
    for k, (row, number) in enumerate(zip(own.row.tolist(), own.number.tolist(), strict=True)):
        step = next(one for one in trace.rows[row].steps() if one.number == number)
        shown = {
            i: int(token) for i, token in enumerate(contexts[k][: trace.rows[row].length]) if token < made.vocabulary
        }
        assert shown == step.context
        assert own.entries.positions[own.step == k].tolist() == sorted(step.revealed)
    torch.testing.assert_close(own.final[own.valid], made.tokens[own.valid])


def test_rows_of_one_prompt_are_one_group():
    made = unmask.generate(Toy(3), given=[[0, 3, 3], [1, 3, 3], [0, 3, 3]], steps=1)
    groups = of_generation(made).groups
    assert groups[0] == groups[2] != groups[1]
    for alike in ({"length": 3, "rows": 2}, {"given": [[0, 3, 3], [0, 3, 3]]}):
        assert of_generation(unmask.generate(Toy(3), steps=1, **alike)).groups.tolist() == [0, 1]


def test_re_masked_tokens_must_be_recorded():
    made = unmask.generate(Toy(4), sampler="remdm", steps=8, length=4, rows=50, seed=1)
    with pytest.raises(UnmaskError, match="trace=True"):
        unmask.gap(Toy(4), made)
    assert made.vocabulary == V
