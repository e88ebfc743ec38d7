"""What leaves: the record, releases and their groups, and what they are checked for."""
