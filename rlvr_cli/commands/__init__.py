"""What the commands do, once their settings are resolved; `main` reads the command line."""
