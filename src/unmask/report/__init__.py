"""Pages, figures and players: results as HTML, SVG and text."""
