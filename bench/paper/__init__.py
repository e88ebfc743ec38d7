"""Experiments of the papers, and their peers' methods: ``python -m bench.paper``."""
