"""A headless Chromium, driven by its DevTools protocol over a pipe."""

import base64
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND", "--hide-scrollbars",
    "--force-prefers-reduced-motion", "--remote-debugging-pipe",
)  # fmt: skip

#: The browser reads commands from descriptor 3 and writes to 4.
_EXEC = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(x), fcntl.F_DUPFD, 10) for x in sys.argv[1:3]]
for end, place in zip(ends, (3, 4)):
    os.dup2(end, place)
os.execvp(sys.argv[3], sys.argv[3:])
"""

#: Keys that a test presses, by name: code, and what they type.
KEYS = {"Tab": (9, ""), "Space": (32, " "), "Enter": (13, "\r"), "ArrowDown": (40, "")}


class Browser:
    """One page at a time. What the console and the network said is in `console` and `loaded`."""

    def __init__(self, folder: Path):
        (ours_in, theirs_out), (theirs_in, ours_out) = os.pipe(), os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-c", _EXEC, str(theirs_in), str(theirs_out), BROWSER, *FLAGS,
             f"--user-data-dir={folder / 'profile'}", "about:blank"],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self.reader, self.writer = os.fdopen(ours_in, "rb"), os.fdopen(ours_out, "wb")
        self.number, self.session, self.rest = 0, None, b""
        self.console, self.loaded, self.events = [], [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def _receive(self):
        while b"\0" not in self.rest:
            part = os.read(self.reader.fileno(), 1 << 16)
            assert part, "the browser ended"
            self.rest += part
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def _note(self, message):
        method, said = message.get("method", ""), message.get("params", {})
        self.events.append(method)
        if method == "Log.entryAdded":
            self.console.append(said["entry"]["text"])
        elif method == "Runtime.exceptionThrown":
            self.console.append(json.dumps(said["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled":
            self.console.append(str([one.get("value") for one in said["args"]]))
        elif method == "Network.requestWillBeSent":
            self.loaded.append(said["request"]["url"])

    def call(self, method, **parameters):
        """One command, and its answer; events on the way are noted."""
        self.number += 1
        command = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            command["sessionId"] = self.session
        self.writer.write(json.dumps(command).encode() + b"\0")
        self.writer.flush()
        while (message := self._receive()).get("id") != self.number:
            self._note(message)
        assert "error" not in message, message
        return message["result"]

    def open(self, path, width=1200, dark=False, media="screen"):
        """Show a file, as wide as that, until it is loaded."""
        self.console, self.loaded, self.events = [], [], []
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900,
                  deviceScaleFactor=1, mobile=False)  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        found = self.call("Page.navigate", url=Path(path).resolve().as_uri())
        assert "errorText" not in found, found
        while "Page.loadEventFired" not in self.events:
            self._note(self._receive())

    def evaluate(self, code):
        """The value of an expression on the page, awaited."""
        found = self.call(
            "Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, key):
        """Press and release one key."""
        code, text = KEYS[key]
        name = " " if key == "Space" else key
        event = {"key": name, "code": key, "windowsVirtualKeyCode": code, "text": text}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **event)
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def picture(self, path):
        """The whole page as a PNG."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True, fromSurface=True)
        Path(path).write_bytes(base64.b64decode(shot["data"]))

    def close(self):
        self.session = None
        self.call("Browser.close")
        self.process.wait(timeout=600)
        self.reader.close()
        self.writer.close()
