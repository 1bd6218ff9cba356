#!/usr/bin/env python3
"""Draw a terminal as SVG: reads what `tmux capture-pane -e -p` prints, writes the picture.

    tmux capture-pane -e -p -t NAME | tools/terminal_svg.py --title 'tenure watch' >picture.svg

It knows the colours and attributes of tables that Tenure prints. Any other escape sequence is an
error, so that a picture never differs from the terminal unnoticed.
"""
import argparse
import re
import sys
import unicodedata
from xml.sax.saxutils import escape

CELL_WIDTH, CELL_HEIGHT = 8.4, 20
MARGIN, TITLE_HEIGHT = 16, 34
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
BACKGROUND, TITLE_BACKGROUND, TEXT, DIM = "#0d1117", "#161b22", "#c9d1d9", "#7d8590"
COLOURS = dict(zip(range(30, 38), ("#6e7681", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff",
                                   "#39c5cf", "#ffffff")))
SEQUENCE = re.compile(r"\x1b\[([0-9;]*)m")
PLAIN = (TEXT, False)


def restyled(style, codes):
    """The style (colour, bold) after one escape sequence."""
    for code in (int(text or 0) for text in codes.split(";")):
        colour, bold = style
        if code == 0:
            style = PLAIN
        elif code == 1:
            style = colour, True
        elif code == 2:
            style = DIM, bold
        elif code == 22:
            style = TEXT if colour == DIM else colour, False
        elif code == 49:  # The default background is the only one.
            pass
        elif code == 39:
            style = TEXT, bold
        elif code in COLOURS:
            style = COLOURS[code], bold
        else:
            sys.exit(f"terminal_svg: attribute {code} is not supported; add it to restyled()")
    return style


def pieces(line, style):
    """(column, text, style) for each run of one style; words far apart are runs of their own."""
    found, column, end = [], 0, 0
    for match in [*SEQUENCE.finditer(line), None]:
        text = line[end:match.start() if match else len(line)]
        for word in re.finditer(r"\S+(?: \S+)*", text):
            found.append((column + word.start(), word.group(), style))
        if any(unicodedata.category(c) == "Cc" or unicodedata.east_asian_width(c) in "WF"
               for c in text):
            sys.exit(f"terminal_svg: characters without a width of one cell in {text!r}")
        column += len(text)
        if match:
            style, end = restyled(style, match.group(1)), match.end()
    return found, style


def text_element(x, y, text, colour, bold):
    """One run; textLength keeps the columns in line whatever font the viewer has."""
    weight = ' font-weight="bold"' if bold else ""
    return (f'<text x="{x:g}" y="{y:g}" fill="{colour}"{weight} '
            f'textLength="{len(text) * CELL_WIDTH:g}" lengthAdjust="spacingAndGlyphs">'
            f"{escape(text)}</text>")


def picture(lines, title):
    width = 2 * MARGIN + CELL_WIDTH * max(len(SEQUENCE.sub("", line)) for line in lines)
    height = TITLE_HEIGHT + 2 * MARGIN + CELL_HEIGHT * len(lines)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
           f'width="{width:g}" height="{height:g}" role="img" '
           f'font-family="{FONT}" font-size="14" xml:space="preserve">',
           f"<title>{escape(title)}</title>",
           f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>',
           f'<path fill="{TITLE_BACKGROUND}" '
           f'd="M0 {TITLE_HEIGHT}V8a8 8 0 0 1 8-8H{width - 8:g}a8 8 0 0 1 8 8V{TITLE_HEIGHT}z"/>',
           text_element(MARGIN, TITLE_HEIGHT / 2 + 5, title, DIM, False)]
    style = PLAIN
    for row, line in enumerate(lines):
        y = TITLE_HEIGHT + MARGIN + CELL_HEIGHT * row + 14
        runs, style = pieces(line, style)
        out += [text_element(MARGIN + CELL_WIDTH * column, y, text, *look)
                for column, text, look in runs]
    return "\n".join([*out, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description="Draw a captured terminal as SVG.")
    parser.add_argument("--title", default="terminal", help="text of the title bar")
    arguments = parser.parse_args()
    lines = sys.stdin.read().rstrip().split("\n")
    if lines == [""]:
        sys.exit("terminal_svg: nothing to draw: the captured screen is empty")
    sys.stdout.write(picture(lines, arguments.title))


if __name__ == "__main__":
    main()
