"""A browser for pages: one for all tests of a module, and pages that say what went wrong in them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import axe_core_python
import pytest
from playwright.sync_api import sync_playwright

from tests.needs import program, require
from tests.sparing import held_out_in_part

Open = Callable[..., Any]


@pytest.fixture(scope="module", autouse=True)
def sparing() -> Iterator[None]:
    with held_out_in_part():
        yield


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, as Playwright drives it. While it runs, no other test of the process can run an event loop."""
    require("chromium")
    with sync_playwright() as driver:
        found = driver.chromium.launch(
            executable_path=program("chromium"), args=["--no-sandbox"] if os.geteuid() == 0 else []
        )  # its sandbox refuses to be root's
        yield found
        found.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Open]:
    """open_page(file, width=1400, dark=False, ..): a page of it; at the end none may have asked for anything, nor have
    logged an error. What else is given goes to Playwright's `new_context`."""
    contexts, wrong = [], []

    def show(file: Path, width: int = 1400, height: int = 900, dark: bool = False, **options: Any) -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            bypass_csp=True,  # a page may forbid what tests ask it, not what it would ask others: that is seen here
            **options,
        )
        contexts.append(context)
        page, address = context.new_page(), file.resolve().as_uri()
        page.set_default_timeout(60_000)
        page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda one: wrong.append(f"asks for {one.url}") if _goes_out(one.url, address) else None)
        page.goto(address)
        return page

    yield show
    for context in contexts:
        context.close()
    assert not wrong


def _goes_out(url: str, address: str) -> bool:
    return url.partition("#")[0] != address and not url.startswith(("data:", "blob:"))


@pytest.fixture(scope="session")
def axe() -> str:
    """axe-core's script, for `page.evaluate`."""
    return (Path(axe_core_python.__file__).parent / "axe.min.js").read_text("utf-8")


@pytest.fixture(scope="session")
def serious(axe: str) -> Callable[[Any], list[str]]:
    """serious(page): what axe-core finds that is serious or critical, as it says it."""

    def look(page: Any) -> list[str]:
        page.evaluate(axe)
        found = page.evaluate("axe.run()")["violations"]
        return [
            f"{one['id']}: {one['help']}: {one['nodes'][0]['html'][:200]}"
            for one in found
            if one["impact"] in ("serious", "critical")
        ]

    return look
