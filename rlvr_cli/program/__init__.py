"""What the commands do, once their options are read."""
