"""The page in headless Chromium: it opens without an error, what is chosen changes what is drawn, names stay
text, and nothing is asked of any network.
"""

import json
import shutil
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from bioattn.store.reader import open_attention
from tests.making import bioattn
from tests.report.conftest import FAMILY, HOSTILE_GENE, HOSTILE_TREATMENT, LENGTH

selenium = pytest.importorskip("selenium", reason="needs selenium")

from selenium import webdriver  # noqa: E402
from selenium.webdriver.chrome.options import Options  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.wait import WebDriverWait  # noqa: E402

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-prefers-reduced-motion",  # no scrolling that is still under way when a click comes
    "--window-size=1280,900",
)
CHROMIUM, CHROMEDRIVER = shutil.which("chromium"), shutil.which("chromedriver")

pytestmark = pytest.mark.skipif(
    CHROMIUM is None or CHROMEDRIVER is None, reason="needs chromium and chromedriver"
)


class Browser:
    """A page that is open, and ways to ask it."""

    def __init__(self, driver):
        self.driver = driver

    def open(self, page):
        self.driver.get_log("browser")
        self.driver.get_log("performance")
        self.driver.get(page.as_uri())

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def wait(self, script):
        WebDriverWait(self.driver, 20).until(lambda driver: driver.execute_script(f"return {script}"))

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def choose(self, selector, value):
        self.run(
            "const n = document.querySelector(arguments[0]); n.value = arguments[1];"
            "n.dispatchEvent(new Event('change'))",
            selector,
            value,
        )

    def edges(self):
        """Outlines of the tracks by treatment."""
        return self.run(
            "return Object.fromEntries([...document.querySelectorAll('#tracks g.track')].map("
            "g => [g.dataset.treatment, g.querySelector('path.edge').getAttribute('d')]))"
        )

    def pixels(self, selector):
        return self.run("return document.querySelector(arguments[0]).toDataURL()", selector)

    def complaints(self):
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self):
        """Every address that the page asked for; the browser's own start page may ask for its parts meanwhile."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [
            event["params"]["request"]["url"]
            for event in events
            if event["method"] == "Network.requestWillBeSent"
            and event["params"]["documentURL"] == self.driver.current_url
        ]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = Options()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(service=Service(CHROMEDRIVER), options=options)
    try:
        yield Browser(driver)
    finally:
        driver.quit()


@pytest.fixture(scope="module")
def pages(run, protein, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    promoters, proteins = folder / "promoters.html", folder / "proteins.html"
    assert bioattn("report", *run.everything, "-o", promoters, "-q") == 0
    assert bioattn("report", *(str(path) for path in protein), "-o", proteins, "-q") == 0
    return promoters, proteins


@pytest.fixture
def promoter_page(browser, pages):
    browser.open(pages[0])
    browser.wait("document.querySelectorAll('#tracks g.track').length === 3")
    return browser


@pytest.fixture
def protein_page(browser, pages):
    browser.open(pages[1])
    browser.wait("document.querySelector('#contact-map').dataset.pair")
    return browser


def search(browser, text):
    box = browser.find("#gene-search")
    box.click()
    box.send_keys(Keys.CONTROL, "a")
    box.send_keys(text)


def show(browser, text, name=None):
    """Choose the promoter that a search finds, and wait for it."""
    search(browser, text)
    browser.find("#gene-search").send_keys(Keys.ENTER)
    wanted = json.dumps(name or text)
    browser.wait(f"document.querySelector('#gene-line strong').textContent === {wanted}")


def heights(path):
    """Levels of an outline `M x y H x V y H x …`."""
    return [float(part.split("H")[0]) for part in path.replace("M", "V").replace(" ", "V").split("V")[2:]]


def test_opens_without_a_complaint_or_a_request_and_hostile_names_do_nothing(promoter_page):
    promoter_page.wait("document.querySelector('#similarity-map').dataset.pair")
    search(promoter_page, HOSTILE_GENE)
    assert promoter_page.find("#gene-options li").text.startswith(HOSTILE_GENE)
    promoter_page.find("#gene-search").send_keys(Keys.ENTER)
    promoter_page.wait(
        f"document.querySelector('#gene-line strong').textContent === {json.dumps(HOSTILE_GENE)}"
    )
    assert HOSTILE_TREATMENT in promoter_page.edges()
    assert promoter_page.run("return window.harmed") is None
    assert (
        promoter_page.run(
            "return document.querySelectorAll('main img, main script, main b:not(.card b)').length"
        )
        == 0
    )
    assert promoter_page.complaints() == []
    asked = promoter_page.requests()
    assert asked[0] == promoter_page.driver.current_url
    assert all(address.startswith("data:") for address in asked[1:])


def test_search_finds_by_id_and_name_and_changes_the_tracks(promoter_page):
    before = promoter_page.edges()
    show(promoter_page, "namedg", "gene01")
    assert promoter_page.edges() != before
    search(promoter_page, "no such gene")
    assert "No promoter is called so" in promoter_page.find("#gene-options").text


def test_tracks_are_the_weights_of_the_head_that_is_chosen(promoter_page, run):
    show(promoter_page, "gene02")
    with open_attention(run.attention) as attention:
        weights = attention.weights("promoter.cross.0", gene="gene02")
        names = attention.treatments
    promoter_page.run("document.querySelector('#same-scale').click()")
    drawn = {}
    for head, expected in ((-1, weights.mean(axis=1)), (0, weights[:, 0]), (1, weights[:, 1])):
        promoter_page.choose("#head", str(head))
        drawn[head] = promoter_page.edges()
        for name, row in zip(names, expected, strict=True):
            levels = np.array(heights(drawn[head][name]))
            # Each track has its own scale now: the lowest y is the largest weight; y grows downwards.
            found = (levels.max() - levels) / np.ptp(levels)
            wanted = (row - row.min()) / np.ptp(row)
            assert np.abs(found - wanted).max() < 0.06
    assert drawn[0] != drawn[1]


def test_zoom_shows_letters_by_mouse_and_keyboard(promoter_page, run):
    show(promoter_page, "gene03")
    letters = (
        "return [...document.querySelectorAll('#tracks g.letters text')].map(t => t.textContent).join('')"
    )
    whole = "".join("ACGT"[code] for code in run.codes[3])
    promoter_page.find("#zoom-in").click()
    view = [
        int(place)
        for place in promoter_page.run(
            "return document.querySelector('#promoter-browser').dataset.view"
        ).split("-")
    ]
    assert view == [LENGTH // 4, 3 * LENGTH // 4]
    assert promoter_page.run(letters) == whole[view[0] : view[1]]
    tracks = promoter_page.find("#tracks")
    tracks.send_keys("0")
    assert (
        promoter_page.run("return document.querySelector('#promoter-browser').dataset.view") == f"0-{LENGTH}"
    )
    tracks.send_keys(Keys.ARROW_RIGHT)
    said = promoter_page.find("#readout").text
    place = LENGTH // 2 + 1
    assert said.startswith(f"−{LENGTH - place} {whole[place]}")
    # gene03 lies on the − strand at bases 4000 to 4080: position p is base 4079 − p, counted from 1 in words.
    assert f"(chr<1>:{4080 - place:,})" in said


def test_similarity_is_walked_by_keyboard_and_brings_the_pair_into_the_browser(promoter_page):
    promoter_page.wait("document.querySelector('#similarity-map').dataset.pair")
    before = promoter_page.find("#similarity-words").text
    canvas = promoter_page.find("#similarity-map")
    canvas.send_keys(Keys.ARROW_DOWN)
    canvas.send_keys(Keys.ARROW_DOWN)
    after = promoter_page.find("#similarity-words").text
    assert after != before
    first, second = (int(place) for place in canvas.get_attribute("data-pair").split(","))
    canvas.send_keys(Keys.ENTER)
    assert len(promoter_page.edges()) == len({first, second})
    pixels = promoter_page.pixels("#similarity-map")
    promoter_page.choose("#similarity-choice", "1")
    promoter_page.wait("!document.querySelector('#similarity .note').textContent.includes('without')")
    assert promoter_page.pixels("#similarity-map") != pixels


def test_a_pair_is_marked_in_every_map_and_in_the_alignment(protein_page, protein):
    assert protein_page.complaints() == []
    labels = protein_page.run(
        "return [...document.querySelectorAll('#contact-map + .ticks text')].map((text) => text.textContent)"
    )
    assert labels == [number for number in ("10", "20", "30", "40", "50") for _ in range(2)]
    canvas = protein_page.find("#contact-map")
    first = [int(place) for place in canvas.get_attribute("data-pair").split(",")]
    before = protein_page.pixels("#alignment-rows")
    canvas.send_keys(Keys.ARROW_RIGHT)
    pair = [first[0], first[1] + 1]
    for selector in ("#contact-map", "#attention-map"):
        assert protein_page.find(selector).get_attribute("data-pair") == f"{pair[0]},{pair[1]}"
    assert protein_page.find("#alignment-rows").get_attribute("data-columns") == f"{pair[0]},{pair[1]}"
    assert protein_page.pixels("#alignment-rows") != before
    with open_attention(protein.attention) as attention:
        target = attention.samples["query"][FAMILY]
    said = protein_page.find("#pair-readout").text
    assert said.startswith(f"{target[pair[0]]}{pair[0] + 1} and {target[pair[1]]}{pair[1] + 1};")


def test_a_head_is_chosen_and_its_row_is_the_files(protein_page, protein):
    thumbs = protein_page.run(
        "return [...document.querySelectorAll('#heads button')].map(b => [b.dataset.head, b.title])"
    )
    with open_attention(protein.attention) as attention:
        assert len(thumbs) == sum(
            len(info.heads) for name, info in attention.sites.items() if not name.startswith("extra")
        )
        before = protein_page.pixels("#attention-map")
        number, title = thumbs[1]
        protein_page.find(f'#heads button[data-head="{number}"]').click()
        protein_page.wait(
            f"document.querySelector('#heads button[data-head=\"{number}\"]').ariaPressed === 'true'"
        )
        assert protein_page.pixels("#attention-map") != before
        site, head = title.split(",")[0], int(title.split("head ")[1].split(":")[0])
        weights = attention.weights(site, sample=FAMILY, head=head)
    query = int(protein_page.find("#row-profile").get_attribute("data-query"))
    bars = protein_page.run(
        "return [...document.querySelectorAll('#row-profile rect')].map(r => Number(r.getAttribute('height')))"
    )
    row = weights[query] / weights[query].max()
    assert np.abs(np.array(bars) / 60 - row).max() < 0.02


def saved(browser, selector):
    """Name and text of the file that a button saves; the link is caught before the browser takes it."""
    browser.run(
        "window.files = []; URL.createObjectURL = (blob) => { window.blob = blob; return '#'; };"
        "HTMLAnchorElement.prototype.click = function () { window.name = this.download; };"
        "document.querySelector(arguments[0]).click();"
        "window.blob.text().then((text) => window.files.push([window.name, text]));",
        selector,
    )
    browser.wait("window.files.length === 1")
    return tuple(browser.run("return window.files[0]"))


def test_drawings_and_numbers_are_saved(promoter_page, pages, run):
    show(promoter_page, "gene02")
    name, text = saved(promoter_page, "#promoter-browser .save[title$=TSV]")
    assert name == "gene02_attention.tsv"
    rows = [line.split("\t") for line in text.splitlines()]
    with open_attention(run.attention) as attention:
        weights = attention.weights("promoter.cross.0", gene="gene02").mean(axis=1)
    assert len(rows) == 1 + weights.size
    np.testing.assert_allclose([float(row[5]) for row in rows[1:]], weights.ravel(), atol=weights.max() / 60)
    name, text = saved(promoter_page, "#promoter-browser .save[title$=SVG]")
    assert name == "gene02_attention.svg"
    drawing = ET.fromstring(text)
    assert drawing.tag == "{http://www.w3.org/2000/svg}svg"
    name, text = saved(promoter_page, "#accuracy .save[title$=TSV]")
    assert text.splitlines()[0].startswith("predictor\t")
    promoter_page.open(pages[1])
    promoter_page.wait("document.querySelector('#contact-map').dataset.pair")
    name, text = saved(promoter_page, "#proteins .map .save[title$=TSV]")
    assert name == f"{FAMILY}_pairs.tsv"
    size = int(promoter_page.run("return DATA.alignments[0].sequence.length"))
    assert len(text.splitlines()) == 1 + size * (size - 1) // 2
    name, text = saved(promoter_page, "#proteins .map .save[title$=SVG]")
    assert "data:image/png" in text
    assert ET.fromstring(text) is not None


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_nothing_sticks_out_at_any_width_in_either_scheme(browser, pages, width, scheme):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        for page in pages:
            browser.open(page)
            browser.wait("document.querySelector('#tracks svg, #contact-map[data-pair]')")
            # Also what opens: a list wider than the page would make it scroll sideways.
            browser.run("document.querySelectorAll('details').forEach(one => { one.open = true; })")
            assert browser.run("return document.documentElement.scrollWidth") <= width
            beyond = (
                "return [...document.querySelectorAll('.picker > div')]"
                ".filter(one => one.getBoundingClientRect().right > document.documentElement.clientWidth).length"
            )
            assert browser.run(beyond) == 0
            background = browser.run("return getComputedStyle(document.body).backgroundColor")
            dark = sum(int(part) for part in background.strip("rgb()").split(",")) < 200
            assert dark == (scheme == "dark")
            assert browser.complaints() == []
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
