"""unmask generate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from unmask.cli.options import Count, Directory, File, Named, Switch

if TYPE_CHECKING:
    from torch import Tensor

    from unmask.languages import Language
    from unmask.networks import Network


def command(
    *,
    out: Path,
    language: Named = None,
    model: Directory = None,
    causal_model: Directory = None,
    sampler: str = "ancestral",
    schedule: str = "linear",
    steps: Count = None,
    length: Count = None,
    rows: Count = None,
    given: File = None,
    prompt_length: Count = None,
    rows_per_prompt: int = 1,
    seed: int = 0,
    first_row: int = 0,
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: Count = None,
    language_seed: int = 0,
    unpruned: Switch = False,
    device: str = "auto",
    batch: Count = None,
    json: Switch = False,
) -> None:
    """Fill sequences with a language's exact denoiser or a network; say the cost.

    Examples:
        unmask generate --language interval-5 --steps 737 --length 510 --out a.npy
        unmask generate --language sparse-hmm --sampler low-confidence --out b.npy
        unmask generate --language my.json --sampler "blocks(block_length=16)" \\
            --schedule cosine --steps 128 --rows 100 --out c.jsonl
        unmask generate --language brackets --given infill.jsonl --out d.npy
        unmask generate --language sparse-hmm --prompt-length 64 --rows 400 \\
            --rows-per-prompt 4 --sampler my_module:MySampler --out e.npy
        unmask generate --model runs/mdm --causal-model runs/ar \\
            --sampler speculative --out f.npy

    What is given goes to OUT with .given before its suffix, where `unmask score`
    finds it: SER and perplexity are then those of what was to be written.

    Samplers, with the values of options that are not given:
        ancestral
            Each position draws its round from the schedule (the paper's sampler).
        as-published-mdlm(batch=16)
            MDLM's own code as a specimen: float32 race, final argmax, one cache a
            batch.
        autoregressive
            The AR baseline: one token after another; steps and schedule are not
            used.
        block-strided(block_length=2)
            Dyadic over blocks of neighbours, a place of each block a round: for
            n-grams, blocks of n - 1.
        blocks(block_length=32, inner='fixed-size')
            Blocks from left to right, each filled by the inner sampler.
        clairvoyant(gamma=0.01)
            The largest set without dependence above gamma nats, by the language
            itself; steps are not used.
        dilated(base=2)
            DUS: from far apart to neighbours in log(L) rounds; steps and schedule
            are not used.
        dream(alg='origin', alg_temp=0.0, temperature=1.0)
            Dream's diffusion_generate: origin, maskgit_plus, topk_margin or
            entropy.
        dyadic
            Every 2^(N-1)-th position first, then midpoints, N being the number of
            rounds.
        entropy(temperature=1.0, noise=0.0, ties='chance')
            Reveal where the marginal has the least entropy.
        entropy-bounded(gamma=0.1, proxy='entropy', temperature=1.0, ties='chance')
            EB: the most positions whose entropies, but the largest, sum to at most
            gamma nats; steps are not used.
        entropy-sum(threshold=1.0, proxy='chance', temperature=1.0, ties='chance')
            Reveal until the cumulative entropy exceeds a threshold in nats; steps
            and schedule are not used.
        factor(factor=1.0, temperature=1.0, ties='chance')
            Fast-dLLM: the n surest, n the largest with (n+1)(1 - confidence) <
            factor; steps are not used.
        first-hitting
            One position at a time in a uniformly random order: ancestral sampling
            with N -> infinity.
        fixed-size
            A fixed number of uniformly chosen positions each round.
        gibbs(inner='ancestral', sweeps=1, stride=0)
            Another sampler, then sweeps that hide each position again and redraw it
            given all others.
        left-to-right
            A fixed number of the leftmost hidden positions each round.
        llada(block_length=32, remasking='low_confidence', temperature=0.0)
            LLaDA's generate: blocks of low-confidence remasking, greedy unless a
            temperature is given.
        low-confidence(temperature=1.0, noise=0.0, ties='chance')
            LLaDA's rule: draw everywhere, keep the tokens that the model was surest
            of.
        margin(temperature=1.0, noise=0.0, ties='chance')
            Reveal where the two most likely tokens are furthest apart.
        remdm(strategy='cap', eta=0.04, t_switch=0.55, t_on=0.55, t_off=0.05,
              alpha_on=0.9)
            Ancestral sampling that hides some of what it has revealed, and draws it
            again.
        self-speculative(draft_length=4)
            The masked model drafts and verifies itself: the law of one token at a
            time; steps are not used.
        speculative(draft_length=8)
            The masked model drafts, the AR model verifies; steps and schedule are
            not used.
        strided
            Every N-th position each round, N being the number of rounds.
        threshold(threshold=0.9, temperature=1.0, ties='chance')
            Fast-dLLM: reveal all that is surer than a threshold; steps and schedule
            are not used.
        top-probability(temperature=1.0, noise=0.0, ties='chance')
            Reveal where the most likely token is most likely.
        verify-and-restart(inner='ancestral', most=10, strict=False, verifier=None)
            Another sampler, again from the start where the language refuses what
            came out.

    Schedules, or the shares of the rounds themselves, as in "[0.2, 0.8]":
        linear
            alpha = 1 - t: the same share at every round (MDLM's log-linear).
        cosine
            alpha = cos(pi t / 2): most in the first rounds.
        cosine-squared
            alpha = cos(pi t / 2)^2: most in the middle rounds.
        polynomial(power=2.0)
            alpha = 1 - t^power: above 1 most in the first rounds, below 1 most in
            the last.
        geometric(ratio=1.05)
            delta_(k+1) = ratio delta_k.
        theorem-4.2(order=2)
            One round of eps, then equal ones: the explicit version of Theorem 4.2
            for n-grams.
        theorem-4.2-proportional(order=2)
            One round of eps, then delta_k = eps/(n-1) p_k^(n-1): the same
            divergence in far fewer rounds.
        optimal
            The least divergence for the language, at this length and number of
            rounds.
        optimal-ser
            The fewest errors for the language, where errors are few.
        geometric-tc
            delta_(k+1) = delta_k / (1 + eta), eta from TC and DTC: for a language
            of small TC.
        geometric-dtc
            delta_(k+1) = (1 + eta) delta_k, eta from TC and DTC: for a language of
            small DTC.

    Args:
        out: Where the tokens go: .npy, or .jsonl with a list a line. What made them goes to OUT.json beside it.
        language: A preset (see `unmask language list`), or a language file.
        model: In place of a language, the directory of a network that `unmask train` has made, MDM or AR.
        causal_model: The directory of an AR network beside an MDM, for samplers that read from left to right.
        sampler: A sampler, with its options in brackets; or package.module:Name, a class of your own.
        schedule: How much is revealed at each round.
        steps: The number of rounds N; 64 if not given.
        length: Tokens a sequence; if not given 512, what the network was made for, or as many as in the given file.
        rows: Sequences; 2000 if not given, or one for each prompt of the given file where there are several.
        given: Tokens to start from, one row for all or a row each, with V (or null in .jsonl) where hidden.
        prompt_length: Start each sequence from so many tokens that the language itself has drawn.
        rows_per_prompt: So many rows, one after another, continue each prompt.
        seed: The seed of the luck; row r depends on it and on first_row + r alone.
        first_row: The number of the first row, to make a later block of the same run.
        temperature: Of every marginal; 0 takes the most likely token.
        top_p: The share of a marginal that is kept, the most likely tokens first.
        top_k: The number of tokens of a marginal that are kept at most.
        language_seed: The seed of a random preset.
        unpruned: Keep every transition of a random preset, so that no string is impossible.
        device: Where a network runs: auto, cpu or cuda.
        batch: Rows that a network evaluates at once, for a device that cannot hold more.
        json: Print one JSON object instead of a table.
    """
    from unmask import UnmaskError, generate, languages
    from unmask.cli.output import show
    from unmask.files import check_writable
    from unmask.networks import read_network
    from unmask.samples import account_path, check_suffix, given_path

    check_suffix(out)
    check_writable(out)
    check_writable(account_path(out))
    rounds = _numbers(schedule) if schedule.lstrip().startswith("[") else schedule
    source: Language | Network
    if model is None:
        if language is None:
            raise UnmaskError("give --language, whose exact denoiser is used, or --model, a network's directory")
        _refuse({"--causal-model": causal_model, "--batch": batch}, "--model")
        source = languages.load(language, seed=language_seed, pruned=not unpruned)
    else:
        _refuse(
            {"--language": language, "--prompt-length": prompt_length, "--unpruned": unpruned or None}, "--language"
        )
        source = read_network(model, causal_model, device, batch)
    asked = Prompts(given, prompt_length, rows_per_prompt)
    start, rows, length = asked.read(source, rows, length, seed, first_row)
    if start is not None:
        check_writable(given_path(out))
    made = generate(
        source,
        sampler=sampler,
        schedule=rounds,
        steps=steps,
        length=length,
        rows=rows,
        seed=seed,
        first_row=first_row,
        given=start,
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
    )
    made.save(out)
    show({"file": str(out)} | made.summary(), json)


def _refuse(options: dict[str, object], needed: str) -> None:
    from unmask.errors import UnmaskError

    for name, value in options.items():
        if value is not None:
            other = "--language and --model both say what fills; leave one of them out"
            raise UnmaskError(other if name == needed else f"{name} needs {needed}")


class Prompts(NamedTuple):
    given: Path | None
    prompt_length: int | None
    rows_per_prompt: int

    def read(
        self, source: Language | Network, rows: int | None, length: int | None, seed: int, first_row: int
    ) -> tuple[Tensor | None, int, int]:
        """(what the rows are given, rows, length)."""
        from unmask import prompts
        from unmask.errors import UnmaskError
        from unmask.languages import Language
        from unmask.samples import read_tokens

        each = self.rows_per_prompt
        if each < 1:
            raise UnmaskError(f"--rows-per-prompt is {each}; expected at least 1")
        if self.given is not None and self.prompt_length is not None:
            raise UnmaskError("--given and --prompt-length both say what to start from; leave one of them out")
        if self.given is not None:
            start = read_tokens(self.given, hidden=source.vocabulary).repeat_interleave(each, 0)
            many = len(start) if len(start) > 1 else 2000
            return start, many if rows is None else rows, start.shape[1] if length is None else length
        usual = 512 if isinstance(source, Language) else source.length
        rows, length = 2000 if rows is None else rows, usual if length is None else length
        if self.prompt_length is not None and isinstance(source, Language):
            drawn = prompts(
                source,
                rows,
                length,
                self.prompt_length,
                rows_per_prompt=each,
                seed=seed,
                first_row=first_row,
            )
            return drawn, rows, length
        if each > 1:
            raise UnmaskError("--rows-per-prompt needs prompts; give --prompt-length, or --given with a file")
        return None, rows, length


def _numbers(text: str) -> list[float]:
    """A schedule given as a list."""
    import ast

    from unmask.errors import UnmaskError

    try:
        return [float(number) for number in ast.literal_eval(text)]
    except (ValueError, TypeError, SyntaxError) as error:
        raise UnmaskError(f"cannot read the schedule {text!r}; write numbers, as in '[0.2, 0.8]'") from error
