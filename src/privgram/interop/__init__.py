"""Other libraries: dp_accounting and marginaleffects."""
