"""Types, errors, files and text that all packages share."""
