"""Fill in the table of attacks in docs/security.md: python docs/security.py."""

import re
import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent / "tests" / "security"))

import attacks  # noqa: E402

GAMES, ALARM = 10_000, 1e-6


def table() -> str:
    """Play every game against both victims."""
    bits, edge = attacks.rare_attributes(), attacks.edge_of_a_binade()
    games = {
        "low bits": (
            bits,
            (bits.naive(attacks.whole), attacks.low_bits(bits)),
            (bits.privgram(), attacks.low_bits(bits)),
        ),
        "sums": (
            edge,
            (edge.naive(attacks.streamed), attacks.off_diagonal(edge, attacks.streamed)),
            (edge.privgram(), attacks.off_diagonal(edge, attacks.exactly)),
        ),
    }
    lines = [
        "| attack | claimed ε | permitted | naive floats | privgram | alarm from | power at 0.6 |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for name, (game, naive, ours) in games.items():
        wins = [attacks.play(*pair, GAMES, seed) for seed, pair in enumerate((naive, ours), 10)]
        limit = attacks.threshold(GAMES, game.permitted, ALARM)
        power = attacks.power(GAMES, game.permitted, ALARM, 0.6)
        lines.append(
            f"| {name} | {game.epsilon:g} | {game.permitted:.1%} | {wins[0] / GAMES:.1%} "
            f"| {wins[1] / GAMES:.1%} | {limit / GAMES:.1%} | {power:.3f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    page = DOCS / "security.md"
    text = page.read_text(encoding="utf-8")
    block = f"<!-- attacks -->\n{table()}\n<!-- end -->"
    filled, found = re.subn(r"<!-- attacks -->.*?<!-- end -->", lambda _: block, text, flags=re.S)
    assert found == 1
    page.write_text(filled, encoding="utf-8")
