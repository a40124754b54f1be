"""The built-in policy: its weights and the recipe that makes them."""
