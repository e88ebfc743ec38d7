"""Plans: what a budget will be worth, before any data is read."""
