"""What is said around a value: whether it stands, or is denied, doubted, changed."""
