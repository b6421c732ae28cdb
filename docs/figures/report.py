"""Take the picture of a report: report.png, its first screen.

    make demo
    python docs/figures/report.py demo-output/report.html

Needs Chromium, its driver, selenium and Pillow.
"""

import base64
import io
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.wait import WebDriverWait

OUTPUT = Path(__file__).resolve().parent / "report.png"
WIDTH = 1280
COLOURS = 128
"""Of the picture: few, so that it stays small."""


def main(report: Path) -> None:
    options = Options()
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--force-prefers-reduced-motion"):
        options.add_argument(flag)
    with tempfile.TemporaryDirectory() as profile:
        options.add_argument(f"--user-data-dir={profile}")
        options.binary_location = shutil.which("chromium") or ""
        driver = webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)
        try:
            size = {"width": WIDTH, "height": 900, "deviceScaleFactor": 1, "mobile": False}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            driver.get(report.resolve().as_uri())
            WebDriverWait(driver, 20).until(
                lambda page: page.execute_script("return document.querySelector('#tracks g.track')")
            )
            height = driver.execute_script(
                "return document.querySelector('.opening').getBoundingClientRect().bottom + scrollY"
            )
            clip = {"x": 0, "y": 0, "width": WIDTH, "height": height + 16, "scale": 1}
            taken = driver.execute_cdp_cmd(
                "Page.captureScreenshot", {"format": "png", "captureBeyondViewport": True, "clip": clip}
            )
        finally:
            driver.quit()
    picture = Image.open(io.BytesIO(base64.b64decode(taken["data"]))).convert("RGB")
    picture.quantize(COLOURS).save(OUTPUT, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
