"""Other libraries: OpenDP, dp_accounting and marginaleffects."""
