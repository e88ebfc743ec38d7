from numpy.random import BitGenerator

class ChaCha20(BitGenerator):
    def __init__(self, key: bytes | None = None, last: bytes = ...) -> None: ...
