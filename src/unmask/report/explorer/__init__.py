"""What a reader can ask of results: the verdict, its controls, the figures that obey them, and the point behind a dot.

Everything is drawn twice from one definition: by Python where the page is written, for print and for readers without
JavaScript, and by explorer.js when a control moves. Both choose the same rows (chosen.py), which a test holds together.
"""
