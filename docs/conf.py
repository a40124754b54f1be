"""Sphinx's settings: `make docs`."""

import rlvr_cli

project = "rlvr"
version = release = rlvr_cli.__version__
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "rlvr"
myst_heading_anchors = 4
exclude_patterns = ["_build"]
html_extra_path = ["clip.html"]
