"""Read atoms: plain functions that receive the parser, each for one kind of atom."""
