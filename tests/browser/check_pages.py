"""Open pages of `show --html` in headless Chromium: no error, nothing cut off, text stays text.

    python tests/browser/check_pages.py [--keep DIR] [--command INGOT]

In an environment with tests/browser/requirements.txt, and with chromium and chromedriver on the
PATH. Each page is opened as a desktop and as a phone shows it, light and dark; --keep has the
screenshots.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import itertools
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.importer.builders import CAUSAL, MODELS, reference_model, safetensors, write

SCRIPT = "<script>document.title='run'</script>"
FILE = "a' onmouseover='alert(1)&lt;img src=x&gt;.txt"
"""A name that no part of a page may take for an attribute, nor for the text that it escapes."""
HOSTILE = f"model.layers.0.{SCRIPT}<img src=x onerror=alert(1)>\"'&lt;.weight"
SCHEMES = ("light", "dark")
LONGEST = 8000
ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)


class Screen(NamedTuple):
    """What a page is shown on; width and height in CSS pixels."""

    name: str
    width: int
    height: int
    scale: int
    is_mobile: bool


SCREENS = (
    Screen("desktop", 1280, 900, 1, is_mobile=False),
    Screen("phone", 390, 844, 2, is_mobile=True),
    Screen("small-phone", 320, 640, 2, is_mobile=True),
)
# What reaches beyond the screen, or beyond what scrolls it; and text that is too pale.
CUT_OFF = """
return [...document.querySelectorAll('h1,h2,h3,p,dt,dd,li,summary,figcaption,svg,th,td,pre')]
  .filter(one => one.offsetParent !== null || one.tagName === 'svg')
  .filter(one => {
    const box = one.getBoundingClientRect();
    if (!box.width || one.closest('thead')) return false;
    return box.right > document.documentElement.clientWidth + 1 || box.left < -1;
  }).map(one => one.tagName + ': ' + one.textContent.slice(0, 60));
"""
PALE = """
function parts(color) { return color.match(/[\\d.]+/g).map(Number); }
function light(color) {
  const [r, g, b] = parts(color).slice(0, 3).map(v => {
    v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function behind(one) {
  for (; one; one = one.parentElement) {
    const color = getComputedStyle(one).backgroundColor;
    if (parts(color)[3] !== 0) return color;
  }
  return 'rgb(255, 255, 255)';
}
const seen = [];
const words = 'h1,h2,h3,p,dt,dd,small,li,summary,th,td,pre,code';
for (const one of document.querySelectorAll(words)) {
  if (!one.textContent.trim() || one.offsetParent === null) continue;
  const a = light(getComputedStyle(one).color), b = light(behind(one));
  const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (contrast < 4.5) seen.push(one.tagName + ' ' + contrast.toFixed(2));
}
for (const text of document.querySelectorAll('.tree .in')) {
  const fill = text.previousElementSibling;
  const a = light(getComputedStyle(text).fill), b = light(getComputedStyle(fill).fill);
  const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (contrast < 4.5) seen.push(fill.getAttribute('class'));
}
return [...new Set(seen)];
"""


def main() -> int:
    """Open every page on every screen; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--keep", type=Path, help="where screenshots and pages stay")
    parser.add_argument("--command", default="ingot")
    asked = parser.parse_args()
    wrong = 0
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        keep = asked.keep or place / "shots"
        keep.mkdir(parents=True, exist_ok=True)
        pages = make_pages(shlex.split(asked.command), place, keep)
        browser = stack.enter_context(opened())
        for page, screen, scheme in itertools.product(pages, SCREENS, SCHEMES):
            problems = list(look(browser, page, screen, scheme, keep))
            print(f"{page.stem:16}{screen.name:14}{scheme:8}{'; '.join(problems) or 'ok'}")
            wrong += len(problems)
    return 1 if wrong else 0


def make_pages(command: list[str], place: Path, keep: Path) -> list[Path]:
    """Import models of every kind, and write the page of each."""
    sources = {
        "llama": (MODELS / "tiny-llama", ()),
        "moe": (MODELS / "tiny-moe", ("-q", "int4", "--report")),
        "pipeline": (MODELS / "tiny-pipeline", ()),
        "hostile": (hostile(place / "hostile"), ()),
        "many": (many(place / "many"), ("-q", "int8", "--report")),
    }
    if (sentences := reference_model()) is not None:
        sources["minilm"] = (sentences, ("-q", "int4", "--report"))
    pages = []
    for name, (source, options) in sources.items():
        page = keep / f"{name}.html"
        for words in (
            ("create", name, source, *options),
            ("show", name, "--html", page),
        ):
            subprocess.run(
                [*command, *map(str, words), "--store", str(place / "store")],
                check=True,
                capture_output=True,
            )
        pages.append(page)
    return pages


def hostile(directory: Path) -> Path:
    """Write a model whose every text tries to be more than text."""
    metadata = {SCRIPT: f"</pre><img src=x onerror=alert(1)>{SCRIPT}"}
    files = {
        "model.safetensors": safetensors({HOSTILE: ("F32", [4], bytes(16))}, metadata),
        FILE: SCRIPT,
        "config.json": CAUSAL | {"architectures": [f"</style>{SCRIPT}{'W' * 300}"]},
        "LICENSE": f"</pre>{SCRIPT}" + "long" * 500,
        "chat_template.jinja": "{{ ''.__class__ }}</pre>" + SCRIPT,
    }
    return write(directory, files)


def many(directory: Path) -> Path:
    """Write a model of ten thousand tensors."""
    matrix = struct.pack("<512f", *(0.01 * (number % 13) - 0.05 for number in range(512)))
    tensors = {
        f"model.layers.{layer}.mlp.experts.{expert}.{part}_proj.weight": (
            "F32",
            [8, 64],
            matrix,
        )
        for layer in range(40)
        for expert in range(84)
        for part in ("up", "gate", "down")
    }
    return write(directory, {"model.safetensors": safetensors(tensors), "config.json": CAUSAL})


@contextlib.contextmanager
def opened():
    """Start the browser."""
    options = webdriver.ChromeOptions()
    for argument in ARGUMENTS:
        options.add_argument(argument)
    options.binary_location = shutil.which("chromium") or ""
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        yield browser
    finally:
        browser.quit()


def look(browser, page: Path, screen: Screen, scheme: str, keep: Path):
    """Yield what is wrong with a page on a screen, and keep a picture of it."""
    command = browser.execute_cdp_cmd
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    command("Emulation.setEmulatedMedia", {"features": features})
    metrics = {"width": screen.width, "height": screen.height, "mobile": screen.is_mobile}
    command("Emulation.setDeviceMetricsOverride", metrics | {"deviceScaleFactor": screen.scale})
    browser.get_log("performance")
    browser.get(page.as_uri())
    yield from (f"console: {entry['message']}" for entry in browser.get_log("browser"))
    asked = [
        entry["message"]
        for entry in browser.get_log("performance")
        if '"Network.requestWillBeSent"' in entry["message"]
        and page.name not in entry["message"]
        and '"url":"data:' not in entry["message"]
    ]
    yield from (f"request: {message[:200]}" for message in asked)
    run = browser.execute_script
    if browser.title != f"{page.stem}:latest":
        yield f"title {browser.title!r}"
    if run("return document.querySelector('h1').innerText") != f"{page.stem}:latest":
        yield "the name is not the heading"
    if run("return document.querySelectorAll('script,img,iframe,object,embed').length"):
        yield "something else than text and drawings"
    wide = run("return document.documentElement.scrollWidth")
    if wide > screen.width:
        yield f"{wide} pixels wide"
    for one in run("return [...document.querySelectorAll('details')]"):
        run("arguments[0].open = true", one)
    yield from (f"cut off: {found}" for found in run(CUT_OFF)[:3])
    yield from (f"pale: {found}" for found in run(PALE)[:3])
    text = run("return document.body.textContent")
    if page.stem == "hostile":
        hidden = [one for one in (SCRIPT, FILE) if one not in text]
        yield from (f"not shown as it is: {one}" for one in hidden)
        attributes = "return [...document.querySelectorAll('*')].some(one => one.onmouseover)"
        if run(attributes) or run("return document.title") == "run":
            yield "a text became an attribute, or was run"
    if run("return getComputedStyle(document.body).backgroundColor") == "rgba(0, 0, 0, 0)":
        yield "no style"
    browser.get(page.as_uri())
    high = min(run("return document.documentElement.scrollHeight"), LONGEST)
    clip = {"x": 0, "y": 0, "width": screen.width, "height": high, "scale": 1}
    shot = command("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    picture = keep / f"{page.stem}-{screen.name}-{scheme}.png"
    picture.write_bytes(base64.b64decode(shot["data"]))


if __name__ == "__main__":
    sys.exit(main())
