"""How fast a page is: written of 10,000 cells, painted, asked by a control; and how smoothly a long row is played."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.timing import Report, main, say
from unmask.core.estimates import proportion
from unmask.core.files import finite, origin
from unmask.core.means import of_variance
from unmask.experiments import store as stores
from unmask.experiments.cell import SCHEMA, Cell, find
from unmask.report.player import Run, page
from unmask.report.publishing import report as written_report
from unmask.samplers.trace import Row, Trace

LANGUAGES = ("paper-2gram", "paper-3gram", "paper-4gram", "sparse-hmm", "interval-5")
SAMPLERS = ("ancestral", "low-confidence", "entropy", "margin", "strided", "top-probability", "fixed-size", "dyadic")
SAMPLERS += ("left-to-right", "first-hitting")
SIZES = {"toy": (1, 1), "quick": (5, 4), "full": (5, 4)}  # languages and seeds: 500 cells each
STEPS = {"toy": 64, "quick": 512, "full": 512}  # of the player, one position each
FRAMES = 30  # a second


def measure(report: Report) -> None:
    directory = Path(tempfile.mkdtemp(prefix="pages-"))
    try:
        written(report, directory)
        if find_spec("playwright") and (program := shutil.which("chromium") or shutil.which("google-chrome")):
            looked_at(report, directory, program)
        else:
            say("pages: without Playwright and Chromium nothing is looked at")
    finally:
        shutil.rmtree(directory)


def written(report: Report, directory: Path) -> None:
    """A store that is as large as a large sweep; what its numbers are does not matter."""
    cells = store(directory / "store", *SIZES[report.size])
    say(f"pages: a report of {cells} cells")
    began = time.perf_counter()
    written_report([directory / "store"], directory / "page")
    report.at_most(f"page: writing a report of {cells} cells", time.perf_counter() - began, 5.0)
    report.at_most("page: its size", (directory / "page/index.html").stat().st_size / 1e6, 3.0, "MB")


def store(place: Path, languages: int, seeds: int) -> int:
    fields = find("samples").fields
    places = [
        {"language": language, "length": length, "sampler": sampler, "steps": 2**k, "seed": seed}
        for language in LANGUAGES[:languages]
        for length in (64, 128, 256, 512, 1024)
        for sampler in SAMPLERS
        for k in range(1, 11)
        for seed in range(seeds)
    ]
    cells = [Cell("samples", fields | about) for about in places]
    rng = random.Random(0)
    with stores.writing(place) as made:
        made.append(stores.Run(SCHEMA, 1.0, "code", "local", {"name": "large"}, origin()))
        made.append(*(stores.Planned(cell.key, cell.stem, cell.job, cell.values) for cell in cells))
        for cell, about in zip(cells, places, strict=True):
            wrong = proportion(rng.randint(0, 200), 200)
            other = of_variance(3 + rng.random(), 0.01, 200, 0.95, "t")
            cost = {"model_calls": float(min(about["steps"], about["length"]))}
            said = {"ser": wrong, "generative_perplexity": other}
            records = [{"measure": name} | finite(one.to_dict()) | cost for name, one in said.items()]
            made.append(stores.Done(cell.key, "code", 2.0, 1.0, [], records))
    return len(cells)


def looked_at(report: Report, directory: Path, program: str) -> None:
    from playwright.sync_api import sync_playwright

    steps = STEPS[report.size]
    row = Row(steps, [(k + 1, k, k % 8, 0.5) for k in range(steps)])
    (directory / "player.html").write_bytes(page([Run("long", Trace(vocabulary=8, rows=[row]))]))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        shown = browser.new_page(viewport={"width": 1400, "height": 1000})
        shown.goto((directory / "page/index.html").as_uri())
        shown.wait_for_selector("figure:last-of-type .vega-embed svg")
        paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
        report.at_most("page: first paint", shown.evaluate(paint), 1000.0, "ms")
        report.at_most("page: a control's answer, the median of ten", shown.evaluate(CONTROL), 100.0, "ms")
        player: Any = browser.new_page(viewport={"width": 1400, "height": 1000})
        player.goto((directory / "player.html").as_uri())
        slowest = player.evaluate(ROUNDS, steps)
        report.at_most(f"player: a round of {steps} x {steps}, the 95th percentile", slowest, 1000 / FRAMES, "ms")
        browser.close()


CONTROL = """async () => {
  const box = document.getElementById("language"), taken = [];
  for (let turn = 0; turn < 10; turn++) {
    box.selectedIndex = (box.selectedIndex + 1) % box.options.length;
    const began = performance.now();
    box.dispatchEvent(new Event("input", { bubbles: true }));
    await new Promise(requestAnimationFrame);
    taken.push(performance.now() - began);
  }
  return taken.sort((a, b) => a - b)[5];
}"""
ROUNDS = """async (rounds) => {
  const next = document.querySelector("[data-do=next]"), taken = [];
  document.querySelector("[data-do=home]").click();
  for (let turn = 0; turn < rounds; turn++) {
    const began = performance.now();
    next.click();
    document.body.getBoundingClientRect();
    taken.push(performance.now() - began);
    await new Promise(requestAnimationFrame);
  }
  return taken.sort((a, b) => a - b)[Math.floor(0.95 * rounds)];
}"""

if __name__ == "__main__":
    main(__doc__, measure)
