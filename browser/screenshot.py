"""Draw a report for the docs: `python browser/screenshot.py report.html docs/figures/report.png`."""

import shutil
import sys
from pathlib import Path

from PIL import Image
from selenium import webdriver

WIDTH, HEIGHT, COLOURS = 1000, 1010, 128


def main(page: Path, picture: Path) -> None:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(argument)
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(page.resolve().as_uri())
    # The head of the page, and right below it the explorer, which is what people come for.
    hidden = ["figures", "curves", "confusion", "map"]
    browser.execute_script("arguments[0].forEach((id) => document.getElementById(id).remove())", hidden)
    browser.save_screenshot(str(picture))
    browser.quit()
    Image.open(picture).convert("RGB").quantize(COLOURS).save(picture, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
