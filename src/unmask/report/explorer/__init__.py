"""The interactive part of a page: verdict, controls, figures, and the numbers behind each point.

Python draws everything once, for print and for readers without JavaScript; explorer.js draws it again when a control
moves. A test checks that both choose the same rows (chosen.py).
"""
