#!/usr/bin/env python3
"""Draws the pictures of docs/tour.md from the runs that scripts/tour-pictures.sh makes.

Usage: tour_pictures.py RUNS IMAGES
"""

import base64
import json
import pathlib
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).parents[1] / "tests/cli"))
from probe_page import Browser

WIDTH, SCALE = 700, 1.5  # pixels of the page, and of the picture for each of them

# Picture: the run's report, the section, and which of its charts.
CHARTS = {
    "step-memory-ddp": ("demo", "timeline", 1),
    "memory": ("demo", "memory", 0),
    "saw-tooth": ("demo", "timeline", 0),
    "step-memory-zero-2": ("demo", "timeline", 3),
    "loss": ("demo", "loss", 0),
    "layout": ("demo", "layout", 0),
    "memory-bf16": ("bf16", "memory", 0),
    "communication": ("volume", "communication", 0),
}

# Leaves only the chart; of the layout's map the first three buckets, without the words above them.
ISOLATE = """
const chart = document.querySelector(`#${arguments[0]} .charts`).children[arguments[1]];
chart.querySelectorAll("p, .bucket ~ .bucket ~ .bucket ~ .bucket").forEach((more) => more.remove());
document.body.replaceChildren(chart);
document.body.style.padding = "0 8px";
"""

# The slices that are drawn: the trace's category, or a collective's purpose: track, color, what it is.
SLICES = {
    "forward": (0, "#4e79a7", "computing"),
    "backward": (0, "#4e79a7", "computing"),
    "optimizer": (0, "#4e79a7", "computing"),
    "comm_exposed": (0, "#e15759", "standing still"),
    "gradient": (1, "#59a14f", "reduce-scatter of gradients"),
    "parameter": (1, "#b07aa1", "all-gather of parameters"),
}


def picture(browser, page, path, isolate=None):
    browser.post("/url", {"url": page.as_uri()})
    if isolate:
        browser.post("/execute/sync", {"script": ISOLATE, "args": isolate})
    browser.post("/execute/async", {"script": "requestAnimationFrame(() => setTimeout(arguments[0], 300))", "args": []})
    height = browser.run("return Math.ceil(document.body.getBoundingClientRect().bottom)")
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": height, "scale": 1}
    path.write_bytes(base64.b64decode(browser.command("Page.captureScreenshot", clip=clip)["data"]))


def slices(trace):
    """Rank 0's slices of the trace's second step, and when that begins and ends."""
    mine = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X" and event["pid"] == 0]
    step = [event for event in mine if event["cat"] == "step"][1]
    begin, end = step["ts"], step["ts"] + step["dur"]
    return begin, end, [event for event in mine if event["ts"] < end and event["ts"] + event["dur"] > begin]


def overlap_page(traces):
    """The tracks of traces below each other, on one scale, as SVG."""
    steps = {title: slices(trace) for title, trace in traces.items()}
    scale = (WIDTH - 110) / max(end - begin for begin, end, _ in steps.values())
    parts, names, top = [], [], 6
    for title, (begin, end, events) in steps.items():
        parts.append(f'<text x="0" y="{top + 8}" font-weight="bold">{title}: a step of {(end - begin) / 1000:.0f} ms</text>')
        for row, track in enumerate(["compute", "communication"]):
            parts.append(f'<text x="0" y="{top + 46 + 34 * row}">{track}</text>')
        for event in events:
            row, color, _ = SLICES.get(event["args"].get("purpose", event["cat"]), (None, None, None))
            if color:
                first, last = max(begin, event["ts"]), min(end, event["ts"] + event["dur"])
                x, width = 105 + scale * (first - begin), scale * (last - first)
                parts.append(f'<rect x="{x:.1f}" y="{top + 28 + 34 * row}" width="{width:.1f}" height="28" fill="{color}"/>')
                if event["name"] in ("forward", "backward"):
                    names.append(f'<text x="{x + 4:.1f}" y="{top + 22}" fill="#59636e">{event["name"]}</text>')
        top += 106
    for i, (color, text) in enumerate(dict.fromkeys((color, text) for _, color, text in SLICES.values())):
        x = (0, 105, 225, 440)[i]
        parts.append(f'<rect x="{x}" y="{top}" width="14" height="14" fill="{color}"/><text x="{x + 19}" y="{top + 12}">{text}</text>')
    return (f'<!DOCTYPE html><body style="margin:0"><svg width="{WIDTH}" height="{top + 20}" font-family="system-ui, sans-serif" font-size="13">'
            + "".join(parts + names) + "</svg>")


def main():
    runs, images = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    images.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = Browser(folder)
        try:
            browser.command("Emulation.setDeviceMetricsOverride", width=WIDTH, height=700, deviceScaleFactor=SCALE, mobile=False)
            browser.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
            for name, (run, section, index) in CHARTS.items():
                picture(browser, runs / run / "report.html", images / f"{name}.png", [section, index])
            page = pathlib.Path(folder) / "overlap.html"
            page.write_text(overlap_page({f"overlap_comm = {on}": runs / f"overlap-{on}" / "trace.json" for on in ("false", "true")}))
            picture(browser, page, images / "overlap.png")
        finally:
            browser.close()


main()
