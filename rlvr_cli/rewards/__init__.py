"""What a response earns: rewards, the user's own functions, and who calls them."""
