"""What every room stands on: numbers and their checks, files and forks, saved forms, text, imports.

It imports no other room, and knows nothing of privacy or of tables.
"""
