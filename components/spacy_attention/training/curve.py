"""A picture of how scores rose over the steps of a training, as SVG."""

from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 780, 360
LEFT, RIGHT, TOP, BOTTOM = 48, 240, 24, 40
# Told apart by people who see colours differently (Okabe and Ito 2008), and by their dashes in print.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
DASHES = ("none", "6 3", "2 3", "10 3 2 3", "1 2", "8 2", "4 4")


def draw_curve(scores: Mapping[str, Sequence[tuple[int, float]]]) -> str:
    """Draw one line per score.

    scores (Mapping): name -> step and value, in [0, 1], of each evaluation.
    RETURNS (str): the SVG.
    """
    last = max((step for points in scores.values() for step, _ in points), default=0) or 1
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12" role="img">',
        "<title>Scores over the steps of the training</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for tenths in range(0, 11, 2):
        y = _y(tenths / 10)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{tenths / 10:.1f}</text>')
    for step in sorted({0, last // 2, last}):
        parts.append(f'<text x="{_x(step, last)}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{step:,}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}" text-anchor="middle">step</text>')
    for i, (name, points) in enumerate(scores.items()):
        parts += _line(i, name, points, last)
    return "\n".join([*parts, "</svg>\n"])


def _line(i: int, name: str, points: Sequence[tuple[int, float]], last: int) -> list[str]:
    style = f'stroke="{COLOURS[i % len(COLOURS)]}" stroke-dasharray="{DASHES[i % len(DASHES)]}" stroke-width="2" fill="none"'
    path = " ".join(f"{_x(step, last)},{_y(value)}" for step, value in points)
    y, x = TOP + 8 + 18 * i, WIDTH - RIGHT + 16
    value = f" {points[-1][1]:.3f}" if points else ""
    return [
        f'<polyline points="{path}" {style}/>',
        f'<line x1="{x}" x2="{x + 24}" y1="{y}" y2="{y}" {style}/>',
        f'<text x="{x + 30}" y="{y + 4}">{escape(name)}{value}</text>',
    ]


def _x(step: int, last: int) -> float:
    return round(LEFT + step / last * (WIDTH - LEFT - RIGHT), 1)


def _y(value: float) -> float:
    return round(HEIGHT - BOTTOM - value * (HEIGHT - TOP - BOTTOM), 1)
