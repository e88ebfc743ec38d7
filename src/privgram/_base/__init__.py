"""What every room stands on: checks of arguments, files, saved forms, text, forks, extras."""
