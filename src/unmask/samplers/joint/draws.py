"""The names of draws: from the product of marginals, or together, the tokens of a step (drawing.py draws them).

    fitted   the joint nearest to the product among those with its marginals on the allowed strings, for all hidden
             positions; the step keeps its own positions
    alone    the same for the positions of the step only: in every step, its KL divergence is at most the product's
    coupled  the product, cut to the allowed strings; biased, because the marginals count the constraint too
    given    coupled, and each model call chooses which rows of a group go on; for constraints that the model does not
             know (particles.py)
    regex, schema, machine
             given, for one of these constraints; coupled if the sampler chooses positions by their marginals
    soft     fitted, with the windows of the language's n-gram in place of a constraint; it excludes no string by design

Fitted marginals: Csiszar 1975; joints of masked models: Discrete Copula Diffusion, arXiv 2410.01949.
"""

from __future__ import annotations

from typing import NamedTuple

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.core.registry import Registry
from unmask.core.specs import parse
from unmask.denoisers import Denoiser
from unmask.languages import automata, schemas
from unmask.languages.automata import Automaton
from unmask.languages.patterns import regex as pattern_automaton
from unmask.samplers.contract import Sampler, inner_of
from unmask.samplers.joint.drawing import SWEEPS, Joint

MOST_CLASSES = 2**12  # of tokens
PARTICLES = 8  # rows of a group


class Source(NamedTuple):
    """The denoiser and the length that a draw is for."""

    denoiser: Denoiser
    length: int
    planned: bool = True  # whether the sampler fixes its order in advance

    @property
    def texts(self) -> tuple[tuple[str | bytes, ...] | None, tuple[bytes, ...] | None]:
        """(the text of each token, by the language or the tokenizer, that at the start of a text); empty: no text."""
        if self.denoiser.language is not None:
            return self.denoiser.language.names, None
        model = self.denoiser
        while (tokenizer := getattr(model, "tokenizer", None)) is None and hasattr(model, "inner"):
            model = model.inner
        if tokenizer is None:
            return None, None
        missing = (b"",) * (model.vocabulary - tokenizer.vocabulary)
        inside, first = tokenizer.pieces
        return inside[: model.vocabulary] + missing, first[: model.vocabulary] + missing

    def matches(self, pattern: str) -> Automaton:
        """The automaton of a pattern over the texts of tokens."""
        names, begins = self.texts
        return pattern_automaton(pattern, self.denoiser.vocabulary, names, begins)

    def automaton(self, constraint: str) -> Automaton:
        return CONSTRAINTS.make(constraint, self)


CONSTRAINTS: Registry[Automaton] = Registry("constraint", given=("source",))
DRAWS: Registry[Joint | None] = Registry("draw", given=("source",))


@CONSTRAINTS.register("support")
def support(source: Source) -> Automaton:
    """the strings of the denoiser's language"""
    if source.denoiser.language is None:
        raise UnmaskError(
            f"{source.denoiser.name} has no language, so its support is unknown",
            "expected another constraint",
            "Pass regex(pattern=..) or schema(file=..).",
        )
    return automata.support(source.denoiser.language)


@CONSTRAINTS.register("regex")
def regex(source: Source, pattern: str) -> Automaton:
    """the strings whose text matches a pattern"""
    return source.matches(pattern)


@CONSTRAINTS.register("schema")
def schema(source: Source, file: str) -> Automaton:
    """the JSON texts of a template or a JSON Schema in a file, and spaces after them"""
    return source.matches(schemas.read_schema(file))


@CONSTRAINTS.register("machine")
def machine(source: Source, file: str) -> Automaton:
    """the automaton in a JSON file"""
    names, _ = source.texts
    if names is not None:
        names = tuple(one if isinstance(one, str) else one.decode(errors="replace") for one in names)
    return automata.read(file, names)


@DRAWS.register("product")
def product(source: Source) -> None:
    """each token from its own marginal, independently"""


@DRAWS.register("fitted")
def fitted(source: Source, constraint: str = "support", sweeps: int = SWEEPS) -> Joint:
    """all hidden tokens together, with their marginals, on the allowed strings"""
    return Joint(source.automaton(constraint), sweeps)


@DRAWS.register("alone")
def alone(source: Source, constraint: str = "support", sweeps: int = SWEEPS) -> Joint:
    """the tokens of a step together; never a larger divergence than the product's, step by step"""
    return Joint(source.automaton(constraint), sweeps, alone=True)


@DRAWS.register("coupled")
def coupled(source: Source, constraint: str = "support") -> Joint:
    """the product, cut to the allowed strings: biased even with one token per step"""
    return Joint(source.automaton(constraint), 0, single=False)


@DRAWS.register("given")
def given(source: Source, constraint: str = "support", particles: int = PARTICLES) -> Joint:
    """coupled, and each model call chooses which rows of a group go on: for constraints unknown to the model"""
    return Joint(source.automaton(constraint), 0, single=False, particles=particles)


def constrained(source: Source, automaton: Automaton) -> Joint:
    """The draw for a constraint that the model does not know."""
    return Joint(automaton, 0, single=False, particles=PARTICLES if source.planned else 1)


@DRAWS.register("regex")
def by_regex(source: Source, pattern: str) -> Joint:
    """given, or coupled where the sampler chooses by marginals, on the strings that match a pattern"""
    return constrained(source, regex(source, pattern))


@DRAWS.register("schema")
def by_schema(source: Source, file: str) -> Joint:
    """the same, on the JSON texts of a template or of a JSON Schema"""
    return constrained(source, schema(source, file))


@DRAWS.register("machine")
def by_machine(source: Source, file: str) -> Joint:
    """the same, on the strings of the automaton in a JSON file"""
    return constrained(source, machine(source, file))


@DRAWS.register("soft")
def soft(source: Source, order: int = 2, sweeps: int = SWEEPS) -> Joint:
    """all hidden tokens together, with their marginals, by the windows of the language's n-gram"""
    language = source.denoiser.language
    if language is None:
        raise UnmaskError(
            f"soft needs the windows of a language; {source.denoiser.name} has none. Use Joint(automaton)."
        )
    if source.length < 2:
        raise UnmaskError(
            "soft weighs windows of two tokens or more, and a sequence of length 1 has none",
            "expected a length of at least 2",
            "Use draw='product'.",
        )

    arguments.whole("order", order, 2, source.length, what=", the length")
    return Joint(automata.windows(language, order, source.length), sweeps)


def rows_together(draw: str) -> int:
    """The most consecutive rows that a draw chooses among each other."""
    name, options = parse("draw", draw)
    if name not in ("given", "regex", "schema", "machine"):
        return 1
    return arguments.whole("particles", options.get("particles", PARTICLES))


def fixed_order(sampler: Sampler) -> bool:
    """Whether the steps of all positions are known before the first call."""
    while getattr(sampler, "inner", None) is not None:
        sampler = inner_of(sampler)
    return sampler.implements("order")


def as_joint(draw: str | Joint, sampler: Sampler, denoiser: Denoiser, length: int) -> Joint | None:
    """The joint draw of a name, or None for the product; an error if it does not fit the sampler or the denoiser."""
    planned = fixed_order(sampler)
    joint = draw if isinstance(draw, Joint) else DRAWS.make(draw, Source(denoiser, length, planned))
    if joint is None:
        return None
    if sampler.distribution != "order" or sampler.revises:
        problem = f"a joint draw needs a sampler that chooses positions before it draws; {sampler.spec} does not"

        raise UnmaskError(f"{problem}. Use ancestral, or entropy, or draw='product'.")
    if joint.particles > 1 and not planned:
        problem = f"particles share an order that is fixed in advance; {sampler.spec} chooses by the model's marginals"

        raise UnmaskError(f"{problem}. Use coupled(constraint=..), or another sampler, such as ancestral.")
    if joint.automaton.vocabulary != denoiser.vocabulary:
        problem = f"the automaton has {joint.automaton.vocabulary} symbols, and {denoiser.name} {denoiser.vocabulary}"

        raise UnmaskError(f"{problem}; expected the same number. Pass the constraint by name, or another automaton.")
    if (classes := joint.automaton.moves.shape[1]) > MOST_CLASSES:
        problem = f"the automaton distinguishes {classes} classes of tokens"

        raise UnmaskError(f"{problem}; expected at most {MOST_CLASSES}. Use a simpler constraint.")
    if denoiser.grid is not None and not joint.alone:
        raise UnmaskError(
            f"{denoiser.name} predicts one block at a time; expected draw='alone', not all hidden positions"
        )
    return joint
