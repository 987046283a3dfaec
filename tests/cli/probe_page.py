#!/usr/bin/env python3
"""Opens a page in headless Chromium and prints what a reader would see, as JSON:

views    of each width and colour scheme: "overflow" (pixels that the page is too wide), "background", and of each canvas its
         section, title and the number of pixels and of colours that are drawn
tables   of each section: "caption", "head" and "rows"; a cell is the number that it stands for, or its text
console  errors and warnings of the console
elements how many elements of each kind there are
toggled  the background after the button for light and dark

Usage: probe_page.py PAGE [FOLDER for screenshots]
"""

import base64
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.request

VIEWS = [(360, "light"), (360, "dark"), (1920, "light"), (1920, "dark")]

LOOK = """
const root = document.documentElement;
const canvases = [...document.querySelectorAll("canvas")].map((canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const colors = new Set();
  let pixels = 0;
  for (let i = 0; i < data.length; i += 4) {
    if (data[i + 3] > 200) {
      ++pixels;
      colors.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
    }
  }
  const title = canvas.getAttribute("aria-label");
  return { section: canvas.closest("section").id, title, pixels, colors: colors.size, width: canvas.clientWidth };
});
return { overflow: root.scrollWidth - root.clientWidth, background: getComputedStyle(document.body).backgroundColor, canvases };
"""

READ = """
const text = (cell) => ("value" in cell.dataset ? Number(cell.dataset.value) : cell.textContent);
const tables = {};
for (const section of document.querySelectorAll("section")) {
  tables[section.id] = [...section.querySelectorAll("table")].map((table) => ({
    caption: table.caption.textContent,
    head: [...table.tHead.rows[0].cells].map((cell) => cell.textContent),
    rows: [...table.tBodies[0].rows].map((row) => [...row.cells].map(text)),
  }));
}
const elements = {};
for (const { localName } of document.querySelectorAll("*")) elements[localName] = (elements[localName] ?? 0) + 1;
return { tables, elements, title: document.title, text: document.body.innerText };
"""

TOGGLE = """
document.querySelector("#theme").click();
return getComputedStyle(document.body).backgroundColor;
"""


class Browser:
    def __init__(self, profile):
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
        port = next(found[1] for line in self.driver.stdout if (found := re.search(r"successfully on port (\d+)", line)))
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # never by a proxy
        self.address = f"http://127.0.0.1:{port}/session"
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={profile}"]
        wanted = {"goog:chromeOptions": {"args": arguments}, "goog:loggingPrefs": {"browser": "ALL"}}
        try:
            self.address += "/" + self.post("", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
        except BaseException:
            self.driver.kill()
            raise

    def request(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"}, method=method)
        with self.opener.open(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def post(self, path, body):
        return self.request("POST", path, body)

    def run(self, script):
        return self.post("/execute/sync", {"script": script, "args": []})

    def command(self, name, **parameters):
        return self.post("/goog/cdp/execute", {"cmd": name, "params": parameters})

    def close(self):
        try:
            self.request("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()


def probe(browser, page, screenshots):
    result = {"views": {}}
    browser.post("/url", {"url": page.resolve().as_uri()})
    for width, scheme in VIEWS:
        browser.command("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        browser.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        browser.post("/execute/async", {"script": "requestAnimationFrame(() => setTimeout(arguments[0], 300))", "args": []})
        result["views"][f"{width} {scheme}"] = browser.run(LOOK)
        if screenshots:
            image = browser.command("Page.captureScreenshot", captureBeyondViewport=True)["data"]
            (screenshots / f"{width}-{scheme}.png").write_bytes(base64.b64decode(image))
    result |= browser.run(READ)
    result["toggled"] = browser.run(TOGGLE)
    result["console"] = [entry["message"] for entry in browser.post("/se/log", {"type": "browser"})]
    return result


def main():
    screenshots = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(profile)
        try:
            json.dump(probe(browser, pathlib.Path(sys.argv[1]), screenshots), sys.stdout)
        finally:
            browser.close()


if __name__ == "__main__":
    main()
