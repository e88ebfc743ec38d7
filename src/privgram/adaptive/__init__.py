"""Adaptive rounds: a table read again in coordinates that earlier rounds released."""
