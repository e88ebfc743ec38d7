"""What every room stands on: checks of arguments, files, saved forms, text, forks, extras.

It imports no other room, and knows nothing of privacy or of tables.
"""
