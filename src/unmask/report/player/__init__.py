"""The player: rows on their way, round by round, with what each round cost and which tokens cannot stand together.

A `Run` is what is played, a trace and the language that it is held against. `fragment` is one player as a part of a
page, `assets` what all of them in a page share, `page` a whole one that asks nobody for anything; `animation` and `gif`
are for slides.
"""

from unmask.report.player.drawing import animation, gif
from unmask.report.player.page import assets, fragment, page
from unmask.report.player.run import Run, chosen

__all__ = ["Run", "animation", "assets", "chosen", "fragment", "gif", "page"]
