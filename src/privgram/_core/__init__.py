"""Compiled hot loops, of one thread each: Python's threads call them, and they release the GIL."""
