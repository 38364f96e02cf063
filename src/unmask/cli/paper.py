"""unmask paper run|list|report|figure-1|figure-2|reasoning|growth|gap."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from unmask.cli.options import Answer, Assignments, Directory, File, Languages, Measuring, Switch

if TYPE_CHECKING:
    from unmask.experiments.paper.reproduction import Reproduction

Items = Annotated[tuple[str, ...], "ITEM"]
Files = Annotated[tuple[Path, ...], "FILE"]


def run(
    items: Items = (),
    *,
    quick: Switch = False,
    full: Switch = False,
    device: str = "auto",
    out: Directory = None,
    by: Measuring = Measuring(),
) -> Answer:
    """Reproduce the paper claim by claim: all items, or the named ones.

    Examples:
        unmask paper run --quick
        unmask paper theorem-4.4 lemmas
        unmask paper --full --device cuda --out all

    Each figure, table, theorem, lemma and claim is compared with measurements. It
    agrees, differs, or is not tested: then it needs weights, a GPU or more rows.
    Verdicts are computed from records. --quick, the default, takes 15 minutes on
    two cores and needs no weights; --full uses the paper's sizes.

    Ctrl-C once ends after the current cell, twice at once; the same command
    resumes. OUT/sweep holds the numbers of all items, so a cell of two items is
    measured once.

    Args:
        items: Names from `unmask paper list` (default: all).
        quick: Small networks, fewer rows (the default).
        full: The paper's networks and rows, for a GPU.
        device: Device of the networks: auto, cpu or cuda.
        out: Directory for the page, the records and the store (default: paper-quick or paper-full).
    """
    from unmask.cli.output import show_tables
    from unmask.core.errors import UnmaskError
    from unmask.experiments.paper.items import chosen
    from unmask.experiments.paper.judge import Size
    from unmask.networks.model.checkpoints import choose_device
    from unmask.report import paper
    from unmask.report.publishing import publish

    if quick and full:
        raise UnmaskError("--quick and --full are two sizes. Expected one. Leave one out")
    chosen(items)
    size = Size(full, str(choose_device(device)))
    directory = Path(f"paper-{size.name}") if out is None else out
    published = publish(paper.page(items), size, directory, **by.options(device))

    def text() -> None:
        show_tables(paper.tables(published.measured))
        _notes(published.measured, items)
        print(f"{published.page}\n{published.seconds:.0f} s")

    about = {"seconds": published.seconds, "page": str(published.page)}
    return Answer(_summary(published.measured, items) | about, text)


def listed() -> Answer:
    """List the items of the paper, with the number of their claims.

    Examples:
        unmask paper list
        unmask paper list --json
    """
    from unmask.experiments.paper.items import ITEMS

    claims = {name: {c.name: [c.where, c.words, c.command] for c in i.claims.values()} for name, i in ITEMS.items()}
    result = {name: {"about": item.about, "claims": claims[name]} for name, item in ITEMS.items()}
    return Answer(result, [(name, f"{item.about} ({len(item.claims)} claims)") for name, item in ITEMS.items()])


def report(*, out: Path = Path("paper-quick"), records: Files = (), markdown: File = None) -> Answer:
    """Judge recorded measurements again and write the page or a document.

    Examples:
        unmask paper report --out paper-quick
        unmask paper report --records results/paper-quick.json --markdown r.md
        unmask paper report --records results/paper-quick.json \\
            results/gpu/timing.json

    This command measures nothing. It judges records of any version of unmask.
    `make gpu` writes records of claims that need a GPU.

    Args:
        out: Directory of an `unmask paper`, for the page; made if it does not exist.
        records: File of records (default: OUT/paper.json). Later files decide the claims that they measure.
        markdown: Write a document to this file instead of the page.
    """
    from unmask.cli.output import show_tables
    from unmask.core.files import atomic, check_writable
    from unmask.experiments.paper.reproduction import FILE, joined
    from unmask.report import paper
    from unmask.report.frame import PAGE
    from unmask.report.publishing import check_directory, write

    target = out / PAGE if markdown is None else markdown
    if markdown is None:
        check_directory(out, PAGE)
    else:
        check_writable(markdown)
    sources = records or (out / FILE,)
    reproduction, origin = joined(sources)
    if markdown is None:
        write(out, {PAGE: paper.drawn(reproduction, origin)}, PAGE)
    else:
        with atomic(markdown) as file:
            file.write(paper.markdown(reproduction, origin, sources[0].name).encode())

    def text() -> None:
        show_tables(paper.tables(reproduction))
        print(target)

    return Answer(_summary(reproduction, ()) | {"file": str(target)}, text)


def _summary(reproduction: Reproduction, items: tuple[str, ...]) -> dict[str, Any]:
    from unmask.report.paper import listing, totals

    claims = [claim for claim in listing(reproduction) if not items or claim["item"] in items]
    failures = [{"job": job, "error": error} for job, error in reproduction.failures]
    return totals(reproduction) | {"size": reproduction.size, "claims": claims, "failures": failures}


def _notes(reproduction: Reproduction, items: tuple[str, ...]) -> None:
    """Print the claims of the named items (default: all claims that differ) and the failed cells."""
    from unmask.cli.output import say

    for name, own in reproduction.findings.items():
        for claim, finding in own:
            if name in items or (not items and finding.verdict == "differs"):
                say(f"{finding.verdict}: {claim.name}, {claim.where}: {finding.why}")
    for job, error in reproduction.failures:
        say(f"not measured: {job}: {error}")


@dataclass(frozen=True)
class Drawing:
    """The page of a recipe.

    Args:
        quick: Use the recipe with -quick in its name: smaller networks, shorter trainings, fewer sequences.
        out: Directory of the page, the numbers and the networks, created if needed. (default: the command's name)
        set: Other values for the recipe, for example steps=[2,8] or training_steps=100.
        device: Device of the networks: auto, cpu or cuda.
    """

    quick: Switch = False
    out: Directory = None
    set: Assignments = ()
    device: str = "auto"
    open: Switch = False

    def publish(self, name: str, by: Measuring, languages: tuple[str, ...] = ()) -> Answer:
        import webbrowser

        from unmask.cli.output import answer_of
        from unmask.report.publishing import publish
        from unmask.report.whole import Selection, of_recipe

        cells = Selection(f"{name}-quick" if self.quick else name, self.set, languages, self.device)
        published = publish(of_recipe(name), cells, self.out or Path(name), **by.options(self.device))
        if self.open:
            webbrowser.open(published.page.as_uri())
        return answer_of(published)


def figure_1(*, languages: Languages = (), drawing: Drawing = Drawing(), by: Measuring = Measuring()) -> Answer:
    """Reproduce Figure 1: trained networks and the exact denoiser.

    Examples:
        unmask paper figure-1 --quick
        unmask paper figure-1 --quick --languages paper-2gram --out one
        unmask paper figure-1 --device cuda --out paper

    The page shows SER and generative perplexity against the number of sampling
    steps, for the exact denoiser and a trained MDM, next to AR. Their difference
    separates learning error from the error of parallel sampling. --quick trains
    small networks on six languages of 64 tokens, in half an hour on two cores.
    Without it, the networks have the paper's 25 million parameters and need a GPU.

    Ctrl-C once ends after the networks in training, twice at once; the same command
    resumes, also within a training. OUT/sweep is the store: other steps or rows in
    the same OUT train no network again.

    Args:
        languages: Only these languages of the recipe (default: all).
    """
    return drawing.publish("figure-1", by, languages)


def figure_2(*, drawing: Drawing = Drawing(), by: Measuring = Measuring()) -> Answer:
    """Reproduce Figure 2, left, on a text: train two models, and judge their texts.

    Examples:
        unmask paper figure-2 --quick
        unmask paper figure-2 --set text=letters.txt tokenizer=bpe:2048 --out letters
        unmask paper figure-2 --quick --set smollm2=true --out judged

    The page shows generative perplexity, token entropy, time and the fraction of
    unknown words against the number of sampling steps, next to AR and the text. The
    judges are the AR model, an n-gram model of held-out text and, with smollm2=true,
    a language model of English. This takes half an hour on two cores, or five
    minutes with --quick. Ctrl-C and OUT/sweep work as in figure-1.

    For --set, text is a file, a directory or kjv (the King James Bible), and
    tokenizer is chars, bpe:N, gpt2 or smollm2.
    """
    return drawing.publish("figure-2", by)


def reasoning(*, drawing: Drawing = Drawing(), by: Measuring = Measuring()) -> Answer:
    """Reproduce Figure 2, right, on sums: check each answer and each step.

    Examples:
        unmask paper reasoning --quick
        unmask paper reasoning --set rows=500 steps=[1,4,16,64] --out sums

    An MDM and an AR model learn questions such as 1+2+3+4=, which they answer with
    working, and chains of sums. The page shows incorrect answers, incorrect steps,
    correct answers from incorrect steps, and the time, by sampler and number of
    steps. This takes a quarter of an hour on two cores; --quick has the questions
    alone and takes five minutes. Ctrl-C and OUT/sweep work as in figure-1.
    """
    return drawing.publish("reasoning", by)


def growth(
    *,
    quick: Switch = False,
    networks: Switch = False,
    out: Directory = None,
    languages: Languages = (),
    set: Assignments = (),
    by: Measuring = Measuring(),
) -> Answer:
    """Measure the steps that an SER takes at growing lengths: masks and uniform noise.

    Examples:
        unmask paper growth --quick
        unmask paper growth --languages paper-2gram --out one
        unmask paper growth --networks

    Theorem 4.4 is about masks: a token that is drawn stays. Under uniform noise
    every token is drawn again in each step. The page shows the number of steps for
    an SER of 50%, 10% and 1% against the length, by sampler, with exact denoisers.
    This takes 15 minutes on two cores; --quick has three languages and shorter
    sequences, and takes about a minute. Ctrl-C and OUT/sweep work as in figure-1.

    --networks trains a network for each kind of noise on three languages, with the
    same layers and the same number of steps, and compares their SER with that of
    the exact denoiser. This takes half an hour on two cores.

    Args:
        quick: Three languages, up to 128 tokens, fewer sequences.
        networks: Train networks of both kinds of noise instead of measuring growth.
        out: Directory of the page and its numbers, created if needed. (default: growth, or growth-networks)
        languages: Only these languages of the recipe (default: all).
        set: Other values for the recipe, for example rows=50.
    """
    from unmask.cli.output import answer_of
    from unmask.core.errors import UnmaskError
    from unmask.report.publishing import publish
    from unmask.report.whole import Selection, of_recipe

    if quick and networks:
        raise UnmaskError("--quick is without networks. Leave it out, or pass --set training_steps=300 rows=100")
    name = "growth-networks" if networks else "growth"
    cells = Selection("growth-quick" if quick else name, set, languages)
    return answer_of(publish(of_recipe(name), cells, out or Path(name), **by.options()))


def gap(*, drawing: Drawing = Drawing(), by: Measuring = Measuring()) -> Answer:
    """Compare the gap, which needs no ground truth, with the true loss.

    Examples:
        unmask paper gap --quick
        unmask paper gap --set rows=1000 --out gaps

    Three samplers at six numbers of steps, on languages and sums with known
    solutions, for exact denoisers and trained networks: the gap next to the exact
    divergence, the SER and the incorrect answers. This is not in the paper;
    docs/gap.md explains the result. It took 34 minutes on two busy cores; --quick
    has one language and one network and takes a minute. Ctrl-C and OUT/sweep work
    as in figure-1.
    """
    return drawing.publish("gap", by)


command = {
    "run": run,
    "list": listed,
    "report": report,
    "figure-1": figure_1,
    "figure-2": figure_2,
    "reasoning": reasoning,
    "growth": growth,
    "gap": gap,
}
