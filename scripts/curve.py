#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The first chart of a run's report as an SVG file of its own, with n-gram models as dashed lines where the run has ngram.json.

Usage: scripts/curve.py RUN OUT.svg     (RUN as scripts/demo.sh leaves it: report.html, ngram.json, eval.json)
"""
import json
import re
import sys
from pathlib import Path

STYLE = """<style>text{font:12px system-ui,sans-serif;fill:#52606d}.grid{stroke:#e4e8ec}.other{stroke:#b3541e;stroke-dasharray:6 4}
.held-out{stroke:#2c7a4b;stroke-dasharray:2 3}</style>"""
NAMES = {2: "bigram", 3: "trigram", 5: "5-gram"}


def read_json(path):
    return json.loads(path.read_text()) if path.exists() else None


def main(run, out):
    found = re.search(r'<svg class="chart" viewBox="0 0 (\d+) (\d+)".*?</svg>', (run / "report.html").read_text(), re.S)
    if not found:
        sys.exit(f"{run}/report.html: expected a chart, found none; run sluice report {run}")
    chart, width, height = found[0], int(found[1]), int(found[2])
    ticks = [(float(value), float(y)) for y, value in re.findall(r'<line class="grid"[^>]*y1="([\d.]+)"[^>]*/><text[^>]*>([\d.]+)</text>', chart)]
    (low, low_y), (high, high_y) = ticks[0], ticks[-1]
    lines = []

    def line(value, label, kind):
        y = low_y + (value - low) * (high_y - low_y) / (high - low)
        if 0 <= y <= height - 34:
            lines.append(f'<line class="{kind}" x1="62" x2="{width - 150}" y1="{y:.1f}" y2="{y:.1f}"/>'
                         f'<text x="{width - 146}" y="{y + 4:.1f}">{label} {value:.2f}</text>')

    for result in (read_json(run / "ngram.json") or {"orders": []})["orders"]:
        if result["order"] in NAMES:
            line(result["bits_per_byte"], f"{NAMES[result['order']]}, held out", "other")
    if evaluation := read_json(run / "eval.json"):
        line(evaluation["bits_per_byte"], "this model, held out", "held-out")
    ground = f'<title>Bits per byte by training step</title>{STYLE}<rect width="{width}" height="{height}" fill="#fff"/>'
    chart = chart.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    chart = re.sub(r"(<svg[^>]*>)", lambda match: match[0] + ground, chart, count=1)
    out.write_text(chart.replace("</svg>", "".join(lines) + "</svg>\n"))


if len(sys.argv) != 3:
    sys.exit(__doc__)
main(Path(sys.argv[1]), Path(sys.argv[2]))
