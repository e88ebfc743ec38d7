"""What a command's exit status says."""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """Exit statuses, which the guide's page on the command line explains."""

    ANSWERED = 0
    FAILED = 1  # by the machine, or by a defect of ours
    BAD_INPUT = 2
    REFUSED = 3
    OVER_BUDGET = 4
    INTERRUPTED = 130  # 128 + SIGINT, as a shell has it
    TERMINATED = 143  # 128 + SIGTERM
