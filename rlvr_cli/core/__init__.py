"""Types, errors, files and text that every room shares."""
