"""Where a response states its answer; the rules are the page of `extract.py`."""
