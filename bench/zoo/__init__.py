"""Regressions on real tables that nobody chose, drawn by the tables' names."""
