"""Where the answer stands in a response."""
