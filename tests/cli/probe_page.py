#!/usr/bin/env python3
"""Opens a page in headless Chromium and prints what a reader would see, as a line of JSON:

views    of each width and colour scheme: "overflow" (pixels that the page is too wide), "background", and of each canvas its
         section, title and the number of pixels and of colours that are drawn
tables   of each section: "caption", "head" and "rows"; a cell is the number that it stands for, or its text
console  errors and warnings of the console
elements how many elements of each kind there are
toggled  the background after the button for light and dark

PAGE is a file, or the address of a live page. That is looked at twice more, without views: when its numbers have changed, with
"kept", whether an opened table and the place scrolled to are as they were, and "state", what it says of the run; and when the
run has ended.

Usage: probe_page.py PAGE [FOLDER for screenshots]
"""

import base64
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
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
const state = document.querySelector("#state").textContent;
return { tables, elements, title: document.title, text: document.body.innerText, state };
"""

TOGGLE = """
document.querySelector("#theme").click();
return getComputedStyle(document.body).backgroundColor;
"""

DRAWN = "return document.querySelector('canvas') !== null;"
MARK = """
document.querySelector("#layout details").open = true;
scrollTo(0, 700);
window.subject = document.querySelector("#subject").textContent;
"""
CHANGED = "return document.querySelector('#subject').textContent !== window.subject;"
KEPT = "return { opened: document.querySelectorAll('details[open]').length, top: scrollY };"
ENDED = "return document.querySelector('#state').textContent.includes('ended');"


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

    def wait_for(self, condition):
        give_up = time.monotonic() + 30
        while not self.run(condition):
            if time.monotonic() > give_up:
                raise TimeoutError(condition)
            time.sleep(0.05)

    def console(self):
        return [entry["message"] for entry in self.post("/se/log", {"type": "browser"})]

    def command(self, name, **parameters):
        return self.post("/goog/cdp/execute", {"cmd": name, "params": parameters})

    def close(self):
        try:
            self.request("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()


def probe(browser, address, screenshots):
    result = {"views": {}}
    browser.post("/url", {"url": address})
    browser.wait_for(DRAWN)
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
    result["console"] = browser.console()
    return result


def follow(browser):
    browser.run(MARK)
    browser.wait_for(CHANGED)
    yield browser.run(READ) | {"kept": browser.run(KEPT)}
    browser.wait_for(ENDED)
    yield browser.run(READ) | {"console": browser.console()}


def tell(look):
    print(json.dumps(look), flush=True)


def main():
    screenshots = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(profile)
        try:
            is_live = sys.argv[1].startswith("http:")
            address = sys.argv[1] if is_live else pathlib.Path(sys.argv[1]).resolve().as_uri()
            tell(probe(browser, address, screenshots))
            if is_live:
                for look in follow(browser):
                    tell(look)
        finally:
            browser.close()


if __name__ == "__main__":
    main()
