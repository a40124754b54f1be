"""What a response earns: rewards, custom functions, and who calls them."""
