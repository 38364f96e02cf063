"""What is shown: pages, their figures, and the one path from settings to files (publishing.py)."""
