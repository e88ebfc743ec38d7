"""The way from a table to a release, by the gate of `privgram.secret`."""
