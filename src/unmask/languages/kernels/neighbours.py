"""Languages whose marginals need only the tokens themselves: first-order chains and interval languages.

tables: those of a chain, or None for the interval language; numba compiles only the branch that applies.
"""

from __future__ import annotations

from unmask.core.compiled import kernel
from unmask.languages.kernels import chain, interval
from unmask.languages.kernels.filling import skip, step_end, write


@kernel(_nrt=False)
def marginal(tables, width, row, j, out):  # type: ignore[no-untyped-def]
    """out (V): the marginal at hidden position j of row (L)."""
    if tables is None:
        interval.marginal(width, row, j, out)
    else:
        chain.marginal(tables, row, j, out)


@kernel(_nrt=False)
def contradicts(tables, width, row, j):  # type: ignore[no-untyped-def]
    """Whether the revealed token at position j of row (L) contradicts the tokens revealed around it."""
    if tables is None:
        impossible = interval.contradicts(width, row, j)
    else:
        impossible = chain.contradicts(tables, row, j)
    return impossible


@kernel(_nrt=False)
def marginals_at(tables, width, tokens, rows, positions, out):  # type: ignore[no-untyped-def]
    """out (K, V): the marginals at K hidden positions of tokens (B, L)."""
    for k in range(rows.shape[0]):
        marginal(tables, width, tokens[rows[k]], positions[k], out[k])


@kernel(_nrt=False)
def contradictions(tables, width, tokens, rows, positions, dead):  # type: ignore[no-untyped-def]
    """Set dead (B) if a newly revealed token (K) contradicts the tokens around it."""
    for k in range(rows.shape[0]):
        if contradicts(tables, width, tokens[rows[k]], positions[k]):
            dead[rows[k]] = True


@kernel(_nrt=False)
def by_neighbours(tables, width, scratch, tokens, order, rng, visits, probability, model_calls, impossible):  # type: ignore[no-untyped-def]
    """`filling.by_messages`. scratch: dead (B), which persists, a distribution (V), and tokens (L) of one step."""
    (steps, positions), (dead, distribution, drawn), length = order, scratch, tokens.shape[1]
    for b in range(tokens.shape[0]):
        row, at = tokens[b], positions[b]
        begin = skip(steps[b])
        while begin < length:
            end = step_end(steps[b], begin)
            model_calls[b] += 1
            if dead[b] and impossible[b] == 0:
                impossible[b] = model_calls[b]
            for i in range(begin, end):  # draws of one step do not see each other
                marginal(tables, width, row, at[i], distribution)
                drawn[i] = write(distribution, rng, b, at[i], visits, probability)
            for i in range(begin, end):
                row[at[i]] = drawn[i]
            for i in range(begin, end):
                dead[b] |= contradicts(tables, width, row, at[i])
            begin = end
