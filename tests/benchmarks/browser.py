"""Chromium without a screen, led by its DevTools protocol: pages as people see them, and pictures of them."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import connect
from websockets.sync.connection import Connection

NAMES = ("chromium", "chromium-browser", "google-chrome")
POLL_SECONDS, MOST_SECONDS = 0.1, 60.0
# Of every text that is shown: the contrast of its colour (as WCAG 2.2 has it) with the nearest ground behind it
CONTRASTS = """(() => {
  const parse = text => (text.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
  const light = colour => { const [r, g, b] = colour.map(c => { c /= 255; return c <= .04045 ? c / 12.92 :
    ((c + .055) / 1.055) ** 2.4 }); return .2126 * r + .7152 * g + .0722 * b };
  const found = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const one = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !one.getClientRects().length) continue;
    let behind = one, ground = [255, 255, 255];
    while (behind) {
      const colour = parse(getComputedStyle(behind).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) { ground = colour; break }
      behind = behind.parentElement;
    }
    const [a, b] = [light(parse(getComputedStyle(one).color).slice(0, 3)), light(ground.slice(0, 3))];
    found.push({text: texts.currentNode.data.trim().slice(0, 40),
      ratio: (Math.max(a, b) + .05) / (Math.min(a, b) + .05), size: parseFloat(getComputedStyle(one).fontSize)});
  }
  return found })()"""
MOST_HEIGHT = 12_000
# No proxy, no calls home: what is looked at is on this machine
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-port=0"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update", "--no-proxy-server"),
    *("--allow-file-access-from-files", "--disable-sync", "--disable-dev-shm-usage", "--force-color-profile=srgb"),
)


class Browser:
    """One page of a running Chromium.

    connection : to the page's DevTools
    complaints : what scripts of the page threw; logged : errors and warnings of the browser itself
    """

    def __init__(self, connection: Connection) -> None:
        self._connection, self._number, self._size = connection, 0, (1440, 900)
        self.complaints: list[str] = []
        self.logged: list[str] = []
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **values: Any) -> dict[str, Any]:
        """Call a method of the protocol; notes on the way what the page complains of."""
        self._number += 1
        self._connection.send(json.dumps({"id": self._number, "method": method, "params": values}))
        while True:
            told: dict[str, Any] = json.loads(self._connection.recv(timeout=MOST_SECONDS))
            if told.get("id") == self._number:
                if "error" in told:
                    raise RuntimeError(f"{method}: {told['error']}")
                result: dict[str, Any] = told["result"]
                return result
            if told.get("method") == "Runtime.exceptionThrown":
                details = told["params"]["exceptionDetails"]
                self.complaints.append(str(details.get("exception", {}).get("description", details["text"])))
            elif told.get("method") == "Log.entryAdded" and told["params"]["entry"]["level"] in ("error", "warning"):
                self.logged.append(str(told["params"]["entry"]["text"]))

    def look(self, width: int, height: int = 900, dark: bool = False) -> None:
        """Be a window of so many CSS pixels, of somebody who likes light or dark pages."""
        self._size = width, height
        self.call("Emulation.setEmulatedMedia", media="screen", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        ])  # fmt: skip
        self._resize(width, height)

    def open(self, url: str) -> None:
        """Go to a page, and wait until it has loaded."""
        self.call("Page.navigate", url=url)
        self.wait(f"document.readyState === 'complete' && location.href.startsWith({json.dumps(url[:40])})")

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        told = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in told:
            raise RuntimeError(f"{script}: {told['exceptionDetails']}")
        return told["result"].get("value")

    def wait(self, script: str, seconds: float = MOST_SECONDS) -> Any:
        """The value of an expression as soon as it is true; raises TimeoutError, with the page's text."""
        deadline = time.monotonic() + seconds
        while not (value := self.run(script)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"never true: {script}; the page says: {self.text()[:2000]}")
            time.sleep(POLL_SECONDS)
        return value

    def text(self) -> str:
        """What the page says."""
        return str(self.run("document.body ? document.body.innerText : ''"))

    def click(self, words: str, kind: str = "*") -> None:
        """Click the innermost element that says just these words."""
        found = (
            f"[...document.querySelectorAll({json.dumps(kind)})].filter(one => one.innerText && one.innerText.trim() "
            f"=== {json.dumps(words)} && one.getClientRects().length).at(-1)"
        )
        self.wait(f"!!({found})")
        self.run(f"{found}.click()")

    def pictures(self) -> list[dict[str, Any]]:
        """Of each <img>: what it is, and its natural and shown width."""
        script = (
            "[...document.querySelectorAll('img')].map(one => ({source: one.src.slice(0, 40), alt: one.alt, "
            "natural: one.naturalWidth, shown: one.getBoundingClientRect().width}))"
        )
        found: list[dict[str, Any]] = self.run(script)
        return found

    def contrasts(self) -> list[dict[str, Any]]:
        """Of each text that is shown: its first words, contrast with the ground behind it, and size in pixels."""
        found: list[dict[str, Any]] = self.run(CONTRASTS)
        return found

    def printed(self, file: Path) -> int:
        """Print the page to a PDF of A4, and return its bytes."""
        paper = {"paperWidth": 8.27, "paperHeight": 11.69, "printBackground": True}
        content = base64.b64decode(self.call("Page.printToPDF", **paper)["data"])
        file.write_bytes(content)
        return len(content)

    def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        # not innerWidth: a phone shows a page that is too wide smaller, and says that its window were as wide
        return int(self.run("document.documentElement.scrollWidth")) - self._size[0]

    def shoot(self, file: Path) -> None:
        """Take a picture of the window, made as high as the page is."""
        width, height = self._size
        self._resize(width, max(height, min(MOST_HEIGHT, int(self.run("document.documentElement.scrollHeight")))))
        # two frames: what was beyond the window has been drawn by then
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
        self._resize(width, height)

    def _resize(self, width: int, height: int) -> None:
        phone = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Chromium with a profile of its own; RuntimeError where none is installed."""
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        raise RuntimeError(f"none of {', '.join(NAMES)} is installed: apt-get install chromium")
    with (profile.parent / "chromium.log").open("wb") as log:
        process = subprocess.Popen([program, *FLAGS, f"--user-data-dir={profile}", "about:blank"], stderr=log)
    try:
        with connect(_address(profile, process), max_size=None) as connection:
            yield Browser(connection)
    finally:
        process.terminate()
        process.wait(10)


def _address(profile: Path, process: subprocess.Popen[bytes]) -> str:
    """Of the DevTools of its one page."""
    from urllib.request import ProxyHandler, build_opener

    told, deadline = profile / "DevToolsActivePort", time.monotonic() + MOST_SECONDS
    while not (told.exists() and len(told.read_text().split()) == 2):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"Chromium did not start; its log is {profile.parent / 'chromium.log'}")
        time.sleep(POLL_SECONDS)
    port = told.read_text().split()[0]
    with build_opener(ProxyHandler({})).open(f"http://127.0.0.1:{port}/json/list") as answer:
        return next(str(page["webSocketDebuggerUrl"]) for page in json.load(answer) if page["type"] == "page")
