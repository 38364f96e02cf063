"""Languages whose marginals need the tokens themselves and nothing else: first-order chains, and intervals.

tables: those of a chain, or None for the interval language; what does not apply is not compiled.
"""

from __future__ import annotations

from unmask.core.compiled import kernel
from unmask.kernels import chain, interval
from unmask.kernels.filling import round_end, skip, write


@kernel(_nrt=False)
def marginal(tables, width, row, j, out):  # type: ignore[no-untyped-def]
    """out (V) at hidden place j of row (L)."""
    if tables is None:
        interval.marginal(width, row, j, out)
    else:
        chain.marginal(tables, row, j, out)


@kernel(_nrt=False)
def contradicts(tables, width, row, j):  # type: ignore[no-untyped-def]
    """Whether the revealed place j of row (L) disagrees with what is revealed around it."""
    if tables is None:
        found = interval.contradicts(width, row, j)
    else:
        found = chain.contradicts(tables, row, j)
    return found


@kernel(_nrt=False)
def marginals_at(tables, width, tokens, rows, positions, out):  # type: ignore[no-untyped-def]
    """out (K, V) at hidden places (K) of tokens (B, L)."""
    for k in range(rows.shape[0]):
        marginal(tables, width, tokens[rows[k]], positions[k], out[k])


@kernel(_nrt=False)
def contradictions(tables, width, tokens, rows, positions, dead):  # type: ignore[no-untyped-def]
    """Set dead (B) where a newly revealed place (K) contradicts what is around it."""
    for k in range(rows.shape[0]):
        if contradicts(tables, width, tokens[rows[k]], positions[k]):
            dead[rows[k]] = True


@kernel(_nrt=False)
def by_neighbours(tables, width, scratch, tokens, order, luck, visits, probability, evaluations, impossible):  # type: ignore[no-untyped-def]
    """As `filling.by_messages`. scratch: dead (B), which is carried on, a law (V), and tokens (L) of one round."""
    (rounds, positions), (dead, law, drawn), length = order, scratch, tokens.shape[1]
    for b in range(tokens.shape[0]):
        row, places = tokens[b], positions[b]
        begin = skip(rounds[b])
        while begin < length:
            end = round_end(rounds[b], begin)
            evaluations[b] += 1
            if dead[b] and impossible[b] == 0:
                impossible[b] = evaluations[b]
            for i in range(begin, end):  # nobody sees what the same round writes
                marginal(tables, width, row, places[i], law)
                drawn[i] = write(law, luck, b, places[i], visits, probability)
            for i in range(begin, end):
                row[places[i]] = drawn[i]
            for i in range(begin, end):
                dead[b] |= contradicts(tables, width, row, places[i])
            begin = end
