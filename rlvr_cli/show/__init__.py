"""Show what runs and results hold: on the screen, as a page, step by step."""
