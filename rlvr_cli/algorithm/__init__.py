"""What the papers change, in the order of the loop, as pure functions."""
