"""The reference by enumeration: all strings of a tiny language, weighed by the definition of its kind, no kernels."""

from __future__ import annotations

import math
from functools import cache
from itertools import combinations, pairwise, product

import numpy as np
from scipy.stats import chi2

from unmask.languages import HMM, Brackets, Interval, Language, ModularSum, NGram, random_hmm, random_ngram
from unmask.languages.grammars import Grammar

ALARM = 1e-6  # the false-alarm rate of a test by p_value, whose seed is fixed
SHARP = {"temperature": 2.0, "threshold": 0.15}  # about half of the entries are zero


@cache
def sequences(vocabulary: int, length: int) -> np.ndarray:
    """All strings (V^L, L), in lexicographic order."""
    return np.indices((vocabulary,) * length).reshape(length, -1).T.copy()


@cache
def distribution(language: Language, length: int) -> np.ndarray:
    """q(x) of every row of `sequences`."""
    return normalised(weights(language, sequences(language.vocabulary, length)))


@cache
def support(language: Language, length: int) -> tuple[np.ndarray, np.ndarray]:
    """(strings, q): the strings of positive probability, and that probability.

    Where V^L is too many, a sum is written down from every choice of operands; its equations are checked all the same.
    """
    if isinstance(language, ModularSum):
        strings = np.array(sorted(set(written(language, length))))
        q = normalised(weights(language, strings))
    else:
        strings, q = sequences(language.vocabulary, length), distribution(language, length)
    return strings[q > 0], q[q > 0]


def normalised(mass: np.ndarray) -> np.ndarray:
    return mass / math.fsum(mass)


def posterior(q: np.ndarray, strings: np.ndarray, tokens: np.ndarray, vocabulary: int) -> np.ndarray:
    """q(x_j = v | x_R) of each context (B, L) -> (B, L, V), by summation; nan where the context is impossible."""
    shown = np.eye(vocabulary)[strings].reshape(len(strings), -1)
    mass = fits(strings, tokens, vocabulary) * q
    with np.errstate(invalid="ignore"):
        marginals = mass @ shown / mass.sum(1, keepdims=True)
    return marginals.reshape(*tokens.shape, vocabulary)


def evidence(q: np.ndarray, strings: np.ndarray, tokens: np.ndarray, vocabulary: int) -> np.ndarray:
    """q(x_R) of each context (B, L)."""
    return fits(strings, tokens, vocabulary) @ q


def fits(strings: np.ndarray, tokens: np.ndarray, vocabulary: int) -> np.ndarray:
    """(B, strings): which strings a context leaves possible."""
    agree = np.ones((len(tokens), len(strings)), bool)
    for j in range(tokens.shape[1]):
        agree &= (tokens[:, j, None] == vocabulary) | (tokens[:, j, None] == strings[:, j])
    return agree


def entropy(q: np.ndarray) -> float:
    q = q[q > 0]
    return -math.fsum(q * np.log(q))


def p_value(drawn: np.ndarray, strings: np.ndarray, q: np.ndarray) -> float:
    """Two-sided chi-square p-value of rows drawn (N, L); 0 if one has q = 0. Cells are pooled to an expected 5."""
    # a number for each string, which two share once in 2^60
    key = np.random.default_rng(0).integers(2**64, size=drawn.shape[1], dtype=np.uint64)
    seen, times = np.unique(drawn.astype(np.uint64) @ key, return_counts=True)
    counts = dict(zip(seen.tolist(), times.tolist(), strict=True))
    names = (strings.astype(np.uint64) @ key).tolist()
    cells = {x: mass * len(drawn) for x, mass in zip(names, q.tolist(), strict=True) if mass > 0}
    if counts.keys() - cells.keys():
        return 0.0
    pools, rest = [[0.0, 0]], float(len(drawn))
    for x in sorted(cells, key=lambda x: -cells[x]):
        if pools[-1][0] >= 5 and rest >= 5:
            pools.append([0.0, 0])
        pools[-1][0] += cells[x]
        pools[-1][1] += counts.get(x, 0)
        rest -= cells[x]
    if len(pools) == 1:
        return 1.0
    statistic = sum((found - wanted) ** 2 / wanted for wanted, found in pools)
    return 2 * min(chi2.sf(statistic, len(pools) - 1), chi2.cdf(statistic, len(pools) - 1))


def weights(language: Language, strings: np.ndarray) -> np.ndarray:
    """The definition of each kind: the mass of each string, up to a factor that one length has in common."""
    match language:
        case HMM():
            return hmm(language, strings)
        case NGram():
            return ngram(language, strings)
        case Interval():
            return interval(language, strings)
        case Grammar():
            return np.array([ended(language, row) for row in strings.tolist()])
    raise TypeError(language)


def hmm(language: HMM, strings: np.ndarray) -> np.ndarray:
    """A sum over all paths of states."""
    paths = sequences(len(language.initial), strings.shape[1])
    mass = language.initial[paths[:, 0]] * language.transition[paths[:, :-1], paths[:, 1:]].prod(1)
    if language.final is not None:
        mass = mass * language.final[paths[:, -1]]
    for j, states in enumerate(paths.T):
        mass = mass[..., None] if mass.ndim == 1 else mass
        mass = mass * language.emission[states][:, strings[:, j]]
    return mass.sum(0)


def ngram(language: NGram, strings: np.ndarray) -> np.ndarray:
    memory, length = language.order - 1, strings.shape[1]
    initial = language.initial.reshape((language.vocabulary,) * memory)
    transition = language.transition.reshape((language.vocabulary,) * language.order)
    start = initial.sum(tuple(range(length, memory)))
    mass = start[tuple(strings[:, :memory].T)]
    for j in range(memory, length):
        mass = mass * transition[tuple(strings[:, j - memory : j + 1].T)]
    return mass


def interval(language: Interval, strings: np.ndarray) -> np.ndarray:
    """Component b-1 of the token at a is component a of the token at b, for a < b in one interval; positions from 1."""
    valid = np.ones(len(strings), bool)
    for first, second in combinations(range(strings.shape[1]), 2):
        if first // language.width == second // language.width:
            a, b = first % language.width + 1, second % language.width + 1
            valid &= component(strings[:, first], b - 1) == component(strings[:, second], a)
    return valid.astype(float)


def component(tokens: np.ndarray, c: int) -> np.ndarray:
    return tokens // 2 ** (c - 1) % 2


def ended(language: Grammar, row: list[int]) -> float:
    """A complete text; with `stop`, one that went on at every earlier complete place, then an end and only padding."""
    if language.stop is None:
        return text_mass(language, row)
    end, pad = language.vocabulary - 2, language.vocabulary - 1
    if end not in row:
        return 0.0
    size = row.index(end)
    if set(row[size + 1 :]) - {pad} or pad in row[:size]:
        return 0.0
    return text_mass(language, row[:size])


def text_mass(language: Grammar, text: list[int]) -> float:
    if isinstance(language, Brackets):
        return brackets_mass(language, text)
    assert isinstance(language, ModularSum)
    return sums_mass(language, text)


def brackets_mass(language: Brackets, text: list[int]) -> float:
    """Balanced to the depth: one mass for all of a length; with `stop`, mu^-length of the stopped walk."""
    stack: list[int] = []
    for token in text:
        if token % 2 == 0:
            stack.append(token // 2)
        elif not stack or stack.pop() != token // 2:
            return 0.0
        if len(stack) > language.depth:
            return 0.0
    return 0.0 if stack or not text else stopped_growth(language) ** -len(text)


def stopped_growth(language: Brackets) -> float:
    """The mu at which a complete text, going on with 1 - stop, has its continuations weigh as much as itself.

    A string of blocks weighs mu^-length if the blocks, summed over all lengths, weigh 1 - stop: mu is the root of
    kinds f_D(mu) = 1 - stop, where f_d is the mass of one block to depth d, f_d = mu^-2 / (1 - kinds f_(d-1)).
    """
    low, high = 2 * math.sqrt(language.kinds) * math.cos(math.pi / (language.depth + 2)), 1e6
    for _ in range(200):
        mu = (low + high) / 2
        block = 0.0
        for _ in range(language.depth):
            block = mu**-2 / (1 - language.kinds * block)
        low, high = (mu, high) if language.kinds * block > 1 - (language.stop or 0) else (low, mu)
    return low


def sums_mass(language: ModularSum, text: list[int]) -> float:
    """1/m for each operand that was free, (1 - stop) for each equation but the last; zero for what is wrong."""
    result, free, equations = None, 0, split(text, language.separator)
    for equation in equations:
        operands = terms(language, equation)
        if operands is None or len(operands) != language.terms:
            return 0.0
        chained = language.chained and result is not None
        if chained and operands[0] != result:
            return 0.0
        free += language.terms - chained
        if equation != evaluation(language, operands):
            return 0.0
        result = equation[-1]
    return (1 - (language.stop or 0)) ** (len(equations) - 1) / language.modulus**free


def split(text: list[int], separator: int) -> list[list[int]]:
    parts: list[list[int]] = [[]]
    for token in text:
        if token == separator:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def terms(language: ModularSum, equation: list[int]) -> tuple[int, ...] | None:
    """The operands before the first `=`, or None."""
    sides = split(equation, language.equals)
    operands = split(sides[0], language.plus)
    if any(len(operand) != 1 or operand[0] >= language.modulus for operand in operands):
        return None
    return tuple(operand[0] for operand in operands)


def evaluation(language: ModularSum, operands: tuple[int, ...]) -> list[int]:
    """`1+2+3` -> `1+2+3=3+3=6`: the first two operands become their sum, until one is left."""
    line: list[int] = []
    for operand in operands:
        line += [language.plus, operand] if line else [operand]
    if len(operands) == 1:
        return line
    total = (operands[0] + operands[1]) % language.modulus
    return [*line, language.equals, *evaluation(language, (total, *operands[2:]))]


def written(language: ModularSum, length: int) -> list[tuple[int, ...]]:
    """Every text of this length (with `stop`, ended and padded), from every choice of operands."""
    one = len(evaluation(language, (0,) * language.terms))
    most = (length + (language.stop is None)) // (one + 1)
    counts = range(1, most + 1) if language.stop is not None else [most]
    choices = list(product(range(language.modulus), repeat=language.terms))
    texts = []
    for count in counts:
        for equations in product(choices, repeat=count):
            text: list[int] = []
            for operands in equations:
                text += [*([language.separator] if text else []), *evaluation(language, operands)]
            if language.stop is not None:
                text += [language.vocabulary - 2, *[language.vocabulary - 1] * (length - len(text) - 1)]
            chained = all(b[0] == sum(a) % language.modulus for a, b in pairwise(equations))
            if chained or not language.chained:
                texts.append(tuple(text))
    return texts


@cache
def tiny_languages() -> dict[str, tuple[Language, int]]:
    """name -> (language, length): one or more of every kind, V^L at most 20000."""
    ends = random_hmm(3, 3, seed=4)
    return {
        "hmm": (random_hmm(3, 2, temperature=2.0, seed=1), 7),
        "hmm, 3 tokens": (random_hmm(3, 3, temperature=2.0, seed=2), 5),
        "hmm, sparse": (random_hmm(4, 3, **SHARP, seed=3), 5),
        "hmm, final": (HMM(ends.initial, ends.transition, ends.emission, [0.0, 0.5, 2.0]), 4),
        "hmm, periodic": (HMM([1, 0, 0], np.roll(np.eye(3), 1, 1), [[0.5, 0.5], [1, 0], [0, 1]], [0, 0, 1]), 6),
        "2-gram": (random_ngram(2, 3, seed=1), 6),
        "2-gram, pruned": (random_ngram(2, 3, **SHARP, seed=2), 6),
        "3-gram, pruned": (random_ngram(3, 3, threshold=0.08, seed=0), 5),
        "3-gram, short": (random_ngram(3, 3, threshold=0.08, seed=2), 1),
        "4-gram, pruned": (random_ngram(4, 2, threshold=0.2, seed=0), 8),
        "4-gram, short": (random_ngram(4, 3, threshold=0.02, seed=1), 2),
        "interval 2": (Interval(2), 7),
        "interval 3": (Interval(3), 6),
        "interval 3, partial": (Interval(3), 4),
        "sums": (ModularSum(2), 5),
        "sums, unchained": (ModularSum(3, chained=False), 5),
        "brackets, 1 kind": (Brackets(1, 2), 10),
        "brackets, 2 kinds": (Brackets(2, 2), 6),
        "brackets, 1 kind, stop": (Brackets(1, 2, stop=0.3), 7),
        "brackets, 2 kinds, stop": (Brackets(2, 2, stop=0.4), 5),
    }


@cache
def long_languages() -> dict[str, tuple[Language, int]]:
    """Those whose V^L is too many for `distribution`, but whose `support` is small."""
    return {
        "sums, two equations": (ModularSum(2), 11),
        "sums, two equations, unchained": (ModularSum(3, chained=False), 11),
        "sums, 3 terms": (ModularSum(2, terms=3), 11),
        "sums, 3 terms, two equations": (ModularSum(2, terms=3), 23),
        "sums, stop": (ModularSum(2, stop=0.3), 19),
        "sums, stop, unchained": (ModularSum(2, chained=False, stop=0.3), 13),
        "sums, 3 terms, stop": (ModularSum(2, terms=3, stop=0.6), 24),
    }
