"""Headless Chromium, controlled by its DevTools protocol: rendered pages and pictures of them."""

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
# For every visible text: the contrast (WCAG 2.2) of its colour with the nearest background
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
# No proxy and no background connections: all pages are on this machine
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-port=0"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update", "--no-proxy-server"),
    *("--allow-file-access-from-files", "--disable-sync", "--disable-dev-shm-usage", "--force-color-profile=srgb"),
)


class Browser:
    """One page of a running Chromium.

    connection : to the page's DevTools
    exceptions : raised by scripts of the page; logged : errors and warnings of the browser
    """

    def __init__(self, connection: Connection) -> None:
        self._connection, self._number, self._size = connection, 0, (1440, 900)
        self.exceptions: list[str] = []
        self.logged: list[str] = []
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **values: Any) -> dict[str, Any]:
        """Call a method of the protocol, and record exceptions and log entries of the page."""
        self._number += 1
        self._connection.send(json.dumps({"id": self._number, "method": method, "params": values}))
        while True:
            message: dict[str, Any] = json.loads(self._connection.recv(timeout=MOST_SECONDS))
            if message.get("id") == self._number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                result: dict[str, Any] = message["result"]
                return result
            if message.get("method") == "Runtime.exceptionThrown":
                details = message["params"]["exceptionDetails"]
                self.exceptions.append(str(details.get("exception", {}).get("description", details["text"])))
            elif message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] in (
                "error",
                "warning",
            ):
                self.logged.append(str(message["params"]["entry"]["text"]))

    def look(self, width: int, height: int = 900, dark: bool = False) -> None:
        """Set the window size in CSS pixels and the light or dark colour scheme."""
        self._size = width, height
        self.call("Emulation.setEmulatedMedia", media="screen", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        ])  # fmt: skip
        self._resize(width, height)

    def open(self, url: str) -> None:
        """Open a page and wait until it has loaded."""
        self.call("Page.navigate", url=url)
        self.wait(f"document.readyState === 'complete' && location.href.startsWith({json.dumps(url[:40])})")

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        reply = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in reply:
            raise RuntimeError(f"{script}: {reply['exceptionDetails']}")
        return reply["result"].get("value")

    def wait(self, script: str, seconds: float = MOST_SECONDS) -> Any:
        """Return the value of an expression as soon as it is true; raise TimeoutError with the text of the page."""
        deadline = time.monotonic() + seconds
        while not (value := self.run(script)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"never true: {script}; the page says: {self.text()[:2000]}")
            time.sleep(POLL_SECONDS)
        return value

    def text(self) -> str:
        """Return the text of the page."""
        return str(self.run("document.body ? document.body.innerText : ''"))

    def click(self, words: str, kind: str = "*") -> None:
        """Click the innermost element whose text is exactly `words`."""
        element = (
            f"[...document.querySelectorAll({json.dumps(kind)})].filter(one => one.innerText && one.innerText.trim() "
            f"=== {json.dumps(words)} && one.getClientRects().length).at(-1)"
        )
        self.wait(f"!!({element})")
        self.run(f"{element}.click()")

    def pictures(self) -> list[dict[str, Any]]:
        """Return source, alternative text, natural and displayed width of each <img>."""
        script = (
            "[...document.querySelectorAll('img')].map(one => ({source: one.src.slice(0, 40), alt: one.alt, "
            "natural: one.naturalWidth, shown: one.getBoundingClientRect().width}))"
        )
        images: list[dict[str, Any]] = self.run(script)
        return images

    def contrasts(self) -> list[dict[str, Any]]:
        """Return the first words, the contrast with the background and the size in pixels of each visible text."""
        texts: list[dict[str, Any]] = self.run(CONTRASTS)
        return texts

    def printed(self, file: Path) -> int:
        """Print the page to a PDF of A4 and return its size in bytes."""
        paper = {"paperWidth": 8.27, "paperHeight": 11.69, "printBackground": True}
        content = base64.b64decode(self.call("Page.printToPDF", **paper)["data"])
        file.write_bytes(content)
        return len(content)

    def overflow(self) -> int:
        """Return by how many pixels the page is wider than its window."""
        # not innerWidth: a phone zooms out of a page that is too wide, and innerWidth becomes as wide as the page
        return int(self.run("document.documentElement.scrollWidth")) - self._size[0]

    def shoot(self, file: Path) -> None:
        """Take a picture of the window at the full height of the page."""
        width, height = self._size
        self._resize(width, max(height, min(MOST_HEIGHT, int(self.run("document.documentElement.scrollHeight")))))
        # wait for two frames, so that the part below the window is drawn
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
        self._resize(width, height)

    def _resize(self, width: int, height: int) -> None:
        phone = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Run Chromium with a new profile; raise RuntimeError if it is not installed."""
    program = next((path for name in NAMES if (path := shutil.which(name))), None)
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
    """Return the address of the DevTools of the only page."""
    from urllib.request import ProxyHandler, build_opener

    port_file, deadline = profile / "DevToolsActivePort", time.monotonic() + MOST_SECONDS
    while not (port_file.exists() and len(port_file.read_text().split()) == 2):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"Chromium did not start; its log is {profile.parent / 'chromium.log'}")
        time.sleep(POLL_SECONDS)
    port = port_file.read_text().split()[0]
    with build_opener(ProxyHandler({})).open(f"http://127.0.0.1:{port}/json/list") as answer:
        return next(str(page["webSocketDebuggerUrl"]) for page in json.load(answer) if page["type"] == "page")
