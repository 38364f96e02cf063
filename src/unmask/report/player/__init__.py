"""The player: sequences step by step, with the loss of each step and the tokens that contradict each other.

A `Run` is a trace with the language that the player compares it with. `fragment` is one player as a part of a page,
`assets` the style and script of all players of a page, `page` a self-contained page.
"""

from unmask.report.player.page import assets, fragment, page
from unmask.report.player.run import Run, chosen

__all__ = ["Run", "assets", "chosen", "fragment", "page"]
